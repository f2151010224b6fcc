//go:build linux

package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/file"
)

// armed arms the point of armStop, which disarms itself when it is reached.
var armed atomic.Bool

// A stopped holder loses the lock to a waiter at its deadline. Nothing that the holder does after it continues has any
// effect.
func TestFrozenHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	c := start(t, dir, "shell")
	const ttl = 500 * time.Millisecond
	token := c.ok("try k %d", ttl.Milliseconds())
	watch := startWatch(t) // after the grant
	c.freeze()

	l := mustWait(t, b, "k", time.Minute)
	took := watch.took()
	t.Logf("granted %v after the frozen holder, TTL %v", took, ttl)
	if most := ttl + b.Guarantees().MaxLate; took > most {
		t.Errorf("granted after %v, want %v at most", took, most)
	}
	if l.Token() <= token {
		t.Errorf("token %d after %d", l.Token(), token)
	}
	c.thaw()
	c.ok("lost")
	for _, stale := range []string{"renew k 60000", "release"} {
		if got := c.do("%s", stale); got != "lost" {
			t.Errorf("%s by the stale holder: %s, want lost", stale, got)
		}
	}
	if got := c.do("try k 60000"); got != "held" {
		t.Errorf("try by the stale holder: %s, want held", got)
	}
	h, err := b.Inspect(t.Context(), "k")
	if err != nil || h.Token != l.Token() || h.TTL < 50*time.Second {
		t.Errorf("the stale holder has changed the lease: %+v %v", h, err)
	}
}

// A killed holder blocks the key for its TTL, not for less, and at most MaxLate longer.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	c := start(t, dir, "shell")
	const ttl = 700 * time.Millisecond
	before := time.Now()
	c.ok("try k %d", ttl.Milliseconds())
	watch := startWatch(t)
	c.kill()
	mustWait(t, b, "k", time.Minute)
	late := watch.took() - ttl
	if early := time.Since(before); early < ttl {
		t.Errorf("granted %v after the request of the killed holder, before its TTL %v", early, ttl)
	}
	t.Logf("at most %v late", late)
	if late > b.Guarantees().MaxLate {
		t.Errorf("granted %v late", late)
	}
}

// Waiters of several processes are granted the key in order of arrival. Killed and frozen waiters are skipped. A waiter
// that gets no processor time during its turn is skipped, too, but only when its turn is over.
func TestQueueOverProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	held := mustTry(t, b, "k", time.Hour)
	last := held.Token()
	var queue []*child
	for i := range 8 {
		c := start(t, dir, "shell")
		c.send("wait k 60000")
		eventually(t, "the waiter is queued", func() bool { return waiters(t, b, "k") == i+1 })
		queue = append(queue, c)
	}
	killed, frozen := queue[2], queue[5]
	killed.kill()
	frozen.freeze()
	begin := time.Now()
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	fastest := time.Minute
	passed := make(map[*child]bool) // waiters that have missed their turn and queue again
	waiting := slices.DeleteFunc(slices.Clone(queue), func(c *child) bool { return c == killed })
	for len(waiting) > 1 {
		c := granted(t, waiting, &last)
		took := time.Since(begin)
		fastest = min(fastest, took)
		place := slices.Index(waiting, c)
		least := time.Duration(0)
		for _, before := range waiting[:place] {
			if !passed[before] {
				passed[before] = true
				least += file.ClaimGrace
			}
		}
		t.Logf("a turn after %v, passing over %v of others", took, least)
		if took < least {
			t.Errorf("a waiter got its turn after %v, before those that had %v for theirs", took, least)
		}
		waiting = append(waiting[place+1:], waiting[:place]...)
		begin = time.Now()
		c.ok("release")
	}
	if fastest > file.ClaimGrace/2 {
		t.Errorf("no waiter got its turn sooner than after %v", fastest)
	}
	if !passed[frozen] || waiting[0] != frozen {
		t.Error("the frozen waiter was granted the key")
	}
	frozen.thaw()
	granted(t, waiting, &last) // it queued again
}

// granted waits until one of waiters is granted the key, with a token above last, and returns that waiter.
func granted(t *testing.T, waiters []*child, last *uint64) (c *child) {
	t.Helper()
	eventually(t, "the next one gets its turn", func() bool {
		for _, c = range waiters {
			select {
			case line := <-c.out:
				var token uint64
				if _, err := fmt.Sscanf(line, "ok %d", &token); err != nil || token <= *last {
					t.Fatalf("a waiter says %q, after token %d", line, *last)
				}
				*last = token
				return true
			default:
			}
		}
		return false
	})
	return c
}

// Eight processes increment a number in a file by reading and writing it. No increment is lost.
func TestCounter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []*child
	for range 8 {
		all = append(all, start(t, dir, "counter"))
	}
	for _, c := range all {
		if line := c.answer(); line != "done" {
			t.Fatal(line)
		}
		c.end()
	}
	text, err := os.ReadFile(filepath.Join(dir, "number"))
	if want := strconv.Itoa(8 * additions); err != nil || string(text) != want {
		t.Errorf("number %s (%v), want %s", text, err, want)
	}
}

const additions = 200

func counter(b *file.Backend) {
	number := filepath.Join(os.Getenv(dirVariable), "number")
	for range additions {
		l, err := b.Acquire(context.Background(), request("number", time.Minute, true))
		if err != nil {
			println("error", err.Error())
			return
		}
		text, _ := os.ReadFile(number)
		n, _ := strconv.Atoi(string(text))
		if err := os.WriteFile(number, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
			println("error", err.Error())
			return
		}
		if err := l.Release(context.Background()); err != nil {
			println("error", err.Error())
			return
		}
	}
	os.Stdout.WriteString("done\n")
}

// Tokens increase across restarts of every process, although no record of the key is kept in between.
func TestTokensOverRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last := uint64(0)
	for range 5 {
		c := start(t, dir, "shell")
		for range 2 {
			token := c.ok("try k 60000")
			if token <= last || token >= 1<<55 {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
			c.ok("release")
		}
		c.end()
	}
}

// 64 waiters of one process use at most 5 % of a core while they are idle.
func TestIdleWaitersCostNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	mustTry(t, b, "k", time.Hour)
	c := start(t, dir, "idle")
	eventually(t, "64 waiters are queued", func() bool { return waiters(t, b, "k") == 64 })
	begin := time.Now()
	c.send("go")
	cpu, err := strconv.ParseFloat(c.answer(), 64)
	if err != nil {
		t.Fatal(err)
	}
	share := cpu / time.Since(begin).Seconds()
	t.Logf("64 waiters use %.2f %% of a core", 100*share)
	if share > 0.05 {
		t.Errorf("64 idle waiters use %.1f %% of a core", 100*share)
	}
}

func idle(b *file.Backend) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() { b.Acquire(ctx, request("k", time.Minute, true)) })
	}
	var line [8]byte
	os.Stdin.Read(line[:])
	begin := cpuTime()
	time.Sleep(3 * time.Second) // sleeps: the period over which CPU time is measured
	os.Stdout.WriteString(strconv.FormatFloat((cpuTime()-begin).Seconds(), 'f', 6, 64) + "\n")
	cancel()
	wg.Wait()
}
