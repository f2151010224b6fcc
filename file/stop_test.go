//go:build linux

package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
)

// A process that is stopped at any point of an operation, with or without the bucket's lock, blocks nobody for longer
// than its TTL plus MaxLate. When the process continues, it does no harm.
func TestStoppedInsideOperation(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"changed", "written", "unlocked"} {
		for _, op := range []string{"try", "renew", "release"} {
			if point == "unlocked" && op != "release" {
				continue // only a release has waiters to notify after this point
			}
			t.Run(op+" "+point, func(t *testing.T) {
				t.Parallel()
				stoppedInside(t, op, point)
			})
		}
	}
}

// leaseToUse is a TTL long enough for a slow child to use its lease before the lease expires.
const leaseToUse = 3 * time.Second

func stoppedInside(t *testing.T, op, point string) {
	dir := t.TempDir()
	b := open(t, dir)
	c := start(t, dir, "shell", stopVariable+"="+point+" STOP")
	ttl := 400 * time.Millisecond
	if op != "try" {
		ttl = leaseToUse
		c.ok("try k %d", ttl.Milliseconds())
	}
	c.ok("arm")
	switch op {
	case "try", "renew":
		c.send("%s k %d", op, ttl.Milliseconds())
	case "release":
		c.send("release")
	}
	c.awaitStop()
	watch := startWatch(t) // everything that the child has done, it did before
	l := mustWait(t, b, "k", time.Minute)
	took := watch.took()
	t.Logf("granted after %v", took)
	if most := ttl + b.Guarantees().MaxLate; took > most {
		t.Errorf("granted %v after the process was stopped, want %v at most", took, most)
	}
	c.thaw()
	line := c.answer()
	want := map[string]string{"try": "held lost error", "renew": "lost", "release": "lost ok"}[op]
	if word, _, _ := strings.Cut(line, " "); !strings.Contains(want, word) {
		t.Errorf("%s, stopped and gone on: %s, want one of %s", op, line, want)
	}
	h, err := b.Inspect(t.Context(), "k")
	if err != nil || h.Token != l.Token() || h.TTL < 50*time.Second {
		t.Errorf("who was stopped has changed the lease: %+v %v", h, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	mustTry(t, b, "k", time.Minute).Release(t.Context())
}

// A process that is killed at any point of an operation leaves a valid record, and blocks nobody for longer than its
// TTL.
func TestKilledInsideOperation(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"try changed", "try written", "wait changed", "wait written", "renew changed", "renew written",
		"release changed", "release written", "release unlocked",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			op, point, _ := strings.Cut(at, " ")
			dir := t.TempDir()
			b := open(t, dir)
			c := start(t, dir, "shell", stopVariable+"="+point+" KILL")
			ttl := 300 * time.Millisecond
			var last uint64
			if op == "renew" || op == "release" {
				ttl = leaseToUse
				last = c.ok("try k %d", ttl.Milliseconds())
			}
			c.ok("arm")
			c.send("%s k %d", op, ttl.Milliseconds())
			c.awaitDeath()
			watch := startWatch(t)
			l := mustWait(t, b, "k", time.Minute)
			if took, most := watch.took(), ttl+b.Guarantees().MaxLate; took > most {
				t.Errorf("granted %v after the death, want %v at most", took, most)
			}
			if l.Token() <= last {
				t.Errorf("token %d after %d", l.Token(), last)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// If a process grants the key to waiters and is killed before it notifies them, they acquire the key when they poll.
func TestKilledBeforeReadersAreNotified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	c := start(t, dir, "shell", stopVariable+"=unlocked KILL")
	c.ok("try k %d", time.Hour.Milliseconds())
	var waiting []<-chan result
	for range 3 {
		waiting = append(waiting, queue(t.Context(), t, b, sharedRequest(time.Minute, true)))
	}
	waiting = append(waiting, queue(t.Context(), t, b, request("k", time.Minute, true)))
	c.ok("arm")
	c.send("release")
	c.awaitDeath()
	watch := startWatch(t)
	var all sync.WaitGroup
	for _, w := range waiting {
		all.Go(func() {
			r := <-w
			if r.err == nil {
				r.err = r.Release(context.Background())
			}
			if r.err != nil {
				t.Error(r.err)
			}
		})
	}
	all.Wait()
	if took, most := watch.took(), 2*file.PollEvery; took > most {
		t.Errorf("all were granted the key after %v, want %v at most", took, most)
	}
}

// If a process is killed between the two writes of a long record, the old record remains.
func TestKilledInsideLongWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	longQueue(t, b, dir)
	c := start(t, dir, "shell", stopVariable+"=body KILL")
	c.ok("arm")
	c.send("wait k 1000")
	c.awaitDeath()
	if n := waiters(t, b, "k"); n != 40 {
		t.Errorf("%d waiters after a write that was cut short, want the 40 from before", n)
	}
}

// longQueue puts 40 waiters into the queue of k.
func longQueue(t *testing.T, b *file.Backend, dir string) {
	t.Helper()
	mustTry(t, b, "k", time.Hour)
	other := open(t, dir)
	for range 40 {
		go other.Acquire(t.Context(), request("k", time.Hour, true))
	}
	eventually(t, "40 waiters", func() bool { return waiters(t, b, "k") == 40 })
}

// If a process is killed while it breaks a lock, the next process completes the break. The state survives every break.
func TestKilledWhileBreaking(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"breaking", "marked", "switching", "moved"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir)
			first := mustTry(t, b, "k", time.Hour)
			stuck := stoppedAt(t, dir, "changed", "try k 1000")

			breaker := start(t, dir, "shell", stopVariable+"="+point+" KILL")
			breaker.ok("arm")
			breaker.send("try k 1000")
			breaker.awaitDeath()
			if err := first.Renew(t.Context(), time.Hour); err != nil {
				t.Errorf("the holder, after its bucket had moved twice: %v", err)
			}
			if l, err := try(b, "k", time.Minute); err == nil {
				t.Errorf("two holders: %d and %d", first.Token(), l.Token())
			}
			stuck.thaw()
			if got := stuck.answer(); got != "held" {
				t.Errorf("who was stopped: %s, want held", got)
			}
			if err := first.Release(t.Context()); err != nil {
				t.Error(err)
			}
			mustTry(t, b, "k", time.Minute).Release(t.Context())
		})
	}
}

// A process continues while its lock is being broken, at any point of the break. Exactly one of the two processes is
// granted the key, and the grant survives the break.
func TestGoesOnWhileBroken(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"breaking", "marked", "switching", "moved"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir)
			stuck := stoppedAt(t, dir, "changed", "try k 60000")
			breaker := stoppedAt(t, dir, point, "try k 60000")
			stuck.thaw()
			var answers []string
			if point == "breaking" { // the lock is not broken yet
				answers = append(answers, stuck.answer())
				if !strings.HasPrefix(answers[0], "ok") {
					t.Errorf("who was stopped, whose file is still there: %s", answers[0])
				}
			}
			breaker.thaw()
			if len(answers) == 0 {
				answers = append(answers, stuck.answer())
			}
			answers = append(answers, breaker.answer())
			granted, held := stuck, answers[1]
			if !strings.HasPrefix(answers[0], "ok") {
				granted, held = breaker, answers[0]
			}
			if held != "held" {
				t.Errorf("the two say %q; want one to be granted the key", answers)
			}
			if _, err := try(b, "k", time.Minute); !errors.Is(err, backend.ErrHeld) {
				t.Errorf("a third one: %v, want ErrHeld", err)
			}
			granted.ok("release")
		})
	}
}

// While a process is stopped in the middle of breaking a lock, the keys of other buckets can be used. The keys of that
// bucket wait until the process continues, as documented. When it continues, it does no harm.
func TestStoppedWhileBreaking(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"marked", "switching", "moved"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir)
			stuck := stoppedAt(t, dir, "written", "try k 1000")
			c := stoppedAt(t, dir, point, "try k 1000")
			mustTry(t, b, "other", time.Minute)
			got := make(chan uint64)
			go func() { got <- mustWait(t, b, "k", time.Minute).Token() }()
			c.thaw()
			if token := <-got; token == 0 {
				t.Error("no token")
			}
			stuck.thaw()
			for _, c := range []*child{c, stuck} {
				c.answer()
				if line := c.do("try k 60000"); line != "held" {
					t.Errorf("after it went on: %s, want held", line)
				}
			}
		})
	}
}

// While another process is stopped in the middle of breaking a bucket's lock, a process that waits for the bucket does
// not accumulate open files.
func TestStoppedBreakKeepsNoFilesOpen(t *testing.T) {
	t.Parallel()
	const files = "/proc/self/fd"
	if _, err := os.Stat(files); err != nil {
		t.Skip("the system does not list open files: ", err)
	}
	dir := t.TempDir()
	b := open(t, dir)
	stuck := stoppedAt(t, dir, "written", "try k 1000")
	breaker := stoppedAt(t, dir, "marked", "try k 1000")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if l, err := b.Acquire(ctx, request("k", time.Minute, true)); err == nil {
		t.Errorf("acquired in a bucket whose break does not end: %v", l)
	}
	entries, err := os.ReadDir(files)
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, e := range entries {
		if at, err := os.Readlink(filepath.Join(files, e.Name())); err == nil && strings.HasPrefix(at, dir+"/") {
			open++
		}
	}
	if open > 8 {
		t.Errorf("%d files are open in the folder of the store", open)
	}
	for _, c := range []*child{breaker, stuck} {
		c.thaw()
		c.answer()
	}
}

// stoppedAt starts a process that stops itself at a given point of a command.
func stoppedAt(t *testing.T, dir, point, command string) *child {
	t.Helper()
	c := start(t, dir, "shell", stopVariable+"="+point+" STOP")
	c.ok("arm")
	c.send(command)
	c.awaitStop()
	return c
}

// A process that was stopped while it had a bucket locked does no harm when it continues, even if the bucket's file was
// replaced twice in the meantime.
func TestBrokenTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	var stuck []*child
	for range 2 {
		c := stoppedAt(t, dir, "changed", "try k 60000")
		stuck = append(stuck, c)
		mustTry(t, b, "k", time.Minute).Release(t.Context())
	}
	held := mustTry(t, b, "k", time.Minute)
	for _, c := range stuck {
		c.thaw()
		if line := c.answer(); line != "held" {
			t.Errorf("who was stopped: %s, want held", line)
		}
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// If the process that was breaking a lock has died, and nobody holds the lock any more, the bucket can be used.
func TestBreakIsLeft(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"marked", "switching"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir)
			first := mustTry(t, b, "k", time.Hour)
			stuck := stoppedAt(t, dir, "changed", "try k 1000")
			breaker := start(t, dir, "shell", stopVariable+"="+point+" KILL")
			breaker.ok("arm")
			breaker.send("try k 1000")
			breaker.awaitDeath()
			stuck.kill()
			if _, err := try(b, "k", time.Minute); !errors.Is(err, backend.ErrHeld) {
				t.Errorf("a second one: %v, want ErrHeld", err)
			}
			if err := first.Release(t.Context()); err != nil {
				t.Error(err)
			}
			mustTry(t, b, "k", time.Minute).Release(t.Context())
		})
	}
}

// If a bucket's file is replaced or removed after a process has opened it and before the process has locked it, the
// process uses the current file.
func TestFileChangesBeforeItIsLocked(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"replaced", "removed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir)
			mustTry(t, b, "k", time.Minute).Release(t.Context()) // creates the file
			c := stoppedAt(t, dir, "opened", "try k 60000")
			if how == "removed" {
				if err := os.Remove(filepath.Join(dir, file.BucketName("k"))); err != nil {
					t.Fatal(err)
				}
			} else {
				stuck := stoppedAt(t, dir, "changed", "try k 1000")
				mustTry(t, b, "k", time.Minute).Release(t.Context()) // breaks the lock of stuck
				stuck.kill()
			}
			held := mustTry(t, b, "k", time.Minute)
			c.thaw()
			if line := c.answer(); line != "held" {
				t.Errorf("who had opened the file before: %s, want held", line)
			}
			if err := held.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// If a process is killed while it is stopped with a bucket locked, the key can soon be acquired.
func TestKilledWhileStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	c := stoppedAt(t, dir, "changed", "try k 60000")
	c.signal(syscall.SIGKILL)
	begin := time.Now()
	mustWait(t, b, "k", time.Minute)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("granted %v after the death", took)
	}
}

// If the process that has a bucket locked and the process that breaks its lock are both stopped, calls that wait for
// the bucket end when the Backend is closed.
func TestCloseEndsWaitForStoppedBucket(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	stoppedAt(t, dir, "changed", "try k 1000")
	stoppedAt(t, dir, "marked", "try k 1000")
	var waiting sync.Map // goroutines that have opened a bucket
	t.Cleanup(func() { file.StopAt(nil) })
	file.StopAt(func(point string) {
		if point == "opened" {
			waiting.Store(goroutine(), true)
		}
	})
	ctx := context.Background()
	ended := make(map[string]chan error)
	for name, call := range map[string]func() error{
		"wait":    func() error { _, err := b.Acquire(ctx, request("k", time.Minute, true)); return err },
		"try":     func() error { _, err := b.Acquire(ctx, request("k", time.Minute, false)); return err },
		"inspect": func() error { _, err := b.Inspect(ctx, "k"); return err },
		"list":    func() error { _, err := b.List(ctx, ""); return err },
	} {
		done := make(chan error, 1)
		ended[name] = done
		go func() { done <- call() }()
	}
	const atBucket = 2 // List, and the goroutine that has the turn for the bucket of k
	eventually(t, "calls wait", func() bool {
		n := 0
		waiting.Range(func(any, any) bool { n++; return true })
		return n == atBucket
	})
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for name, done := range ended {
		select {
		case err := <-done:
			if !errors.Is(err, backend.ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s goes on after Close", name)
		}
	}
}

// A process is stopped after it has written its release, and its lock is broken. When it continues, it repeats the
// release and finds nothing, but the lease was released, not lost.
func TestRepeatedReleaseIsNoLoss(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	c := start(t, dir, "shell", stopVariable+"=written STOP")
	c.ok("try k 60000")
	c.ok("arm")
	c.send("release")
	c.awaitStop()
	l := mustWait(t, b, "k", time.Minute)
	c.thaw()
	if line := c.answer(); !strings.HasPrefix(line, "ok") {
		t.Errorf("release, stopped and gone on: %s, want ok", line)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
