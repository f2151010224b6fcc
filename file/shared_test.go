//go:build linux

package file_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
)

func sharedRequest(ttl time.Duration, wait bool) backend.Request {
	r := request("k", ttl, wait)
	r.Shared = true
	return r
}

// mustShare acquires a shared lease on k without waiting.
func mustShare(t testing.TB, b backend.Backend, ttl time.Duration) backend.Lease {
	t.Helper()
	l, err := b.Acquire(context.Background(), sharedRequest(ttl, false))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// queue starts an Acquire of r, and returns when it is in the queue. The channel receives its result.
func queue(ctx context.Context, t testing.TB, b backend.Backend, r backend.Request) <-chan result {
	t.Helper()
	before := waiters(t, b, r.Key)
	done := make(chan result, 1)
	go func() {
		l, err := b.Acquire(ctx, r)
		done <- result{l, err}
	}()
	eventually(t, "the waiter is queued", func() bool { return waiters(t, b, r.Key) == before+1 })
	return done
}

type result struct {
	backend.Lease
	err error
}

// granted returns the lease of a result, which must not be an error.
func (r result) granted(t testing.TB) backend.Lease {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.Lease
}

func mustRelease(t testing.TB, leases ...backend.Lease) {
	t.Helper()
	for _, l := range leases {
		if err := l.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func readers(t testing.TB, b backend.Backend) int {
	t.Helper()
	h, err := b.Inspect(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return h.Shared
}

func TestReadersAndWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, other := open(t, dir), open(t, dir)
	first := mustShare(t, b, time.Minute)
	r := sharedRequest(time.Hour, false)
	second, err := other.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := other.Acquire(t.Context(), r); err != nil || again.Token() != second.Token() || readers(t, b) != 2 {
		t.Errorf("the same request again: %v, %d readers", err, readers(t, b))
	}
	_, err = try(b, "k", time.Minute)
	held, _ := errors.AsType[*backend.HeldError](err)
	if held == nil || held.Holder.Shared != 2 || held.Holder.Owner != r.Owner || held.Holder.Token != second.Token() ||
		held.Holder.TTL < 59*time.Minute {
		t.Errorf("a writer beside readers: %v", err)
	}
	if keys, err := b.List(t.Context(), ""); err != nil || len(keys) != 1 {
		t.Errorf("listed: %q %v", keys, err)
	}

	writer := queue(t.Context(), t, b, request("k", time.Minute, true))
	if _, err := b.Acquire(t.Context(), sharedRequest(time.Minute, false)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a reader that does not wait, behind a writer: %v, want ErrHeld", err)
	}
	var parked []<-chan result
	for _, c := range []*file.Backend{b, other, b} {
		parked = append(parked, queue(t.Context(), t, c, sharedRequest(time.Minute, true)))
	}
	last := queue(t.Context(), t, other, request("k", time.Minute, true))
	mustRelease(t, first)
	if n := waiters(t, b, "k"); n != 5 {
		t.Errorf("%d waiters after the first reader's release, want 5", n)
	}
	watch := startWatch(t)
	mustRelease(t, second)
	w := (<-writer).granted(t)
	if took := watch.took(); took > file.ClaimGrace/2 {
		t.Errorf("the writer came %v after the last reader's release", took)
	}
	watch = startWatch(t)
	mustRelease(t, w)
	var together []backend.Lease
	for _, c := range parked {
		together = append(together, (<-c).granted(t))
	}
	if took := watch.took(); took > file.ClaimGrace/2 || readers(t, b) != 3 {
		t.Errorf("%d readers entered %v after the writer's release, want 3 at once", readers(t, b), took)
	}
	mustRelease(t, together...)
	end := (<-last).granted(t)
	for _, l := range together {
		if l.Token() <= w.Token() || l.Token() >= end.Token() {
			t.Errorf("token %d is not between the writers' %d and %d", l.Token(), w.Token(), end.Token())
		}
	}
}

// If a waiting writer is cancelled or killed, the readers behind it are granted the key while other readers still hold
// it.
func TestWriterAheadIsGone(t *testing.T) {
	t.Parallel()
	for how, most := range map[string]time.Duration{"gives up": file.ClaimGrace / 2, "is killed": 3 * file.PollEvery / 2} {
		for _, wait := range []bool{true, false} {
			t.Run(fmt.Sprint(how, " wait=", wait), func(t *testing.T) {
				t.Parallel()
				most := most
				dir := t.TempDir()
				b := open(t, dir)
				mustShare(t, b, time.Hour)
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				var writer <-chan result
				c := start(t, dir, "shell")
				if how == "is killed" {
					c.send("wait k 60000")
					eventually(t, "the writer is queued", func() bool { return waiters(t, b, "k") == 1 })
				} else {
					writer = queue(ctx, t, b, request("k", time.Minute, true))
				}
				var parked []<-chan result
				for range 2 {
					parked = append(parked, queue(t.Context(), t, b, sharedRequest(time.Minute, true)))
				}
				watch := startWatch(t)
				if giveUp(); writer != nil {
					<-writer
				} else {
					c.kill()
				}
				if !wait {
					mustShare(t, b, time.Minute)
					most = file.ClaimGrace / 2
				}
				for _, p := range parked {
					(<-p).granted(t)
				}
				if took := watch.took(); took > most {
					t.Errorf("readers entered after %v, want %v at most", took, most)
				}
			})
		}
	}
}

// A frozen reader's lease ends at its own TTL, however often other readers renew. The reader cannot renew it later.
func TestDeadReader(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond
	dir := t.TempDir()
	b := open(t, dir)
	long := mustShare(t, b, time.Hour)
	c := start(t, dir, "shell")
	c.ok("shared-try k %d", ttl.Milliseconds())
	c.freeze()
	frozen := startWatch(t)
	for readers(t, b) == 2 {
		if err := long.Renew(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if took := frozen.took(); took > ttl+b.Guarantees().MaxLate {
			t.Fatalf("the dead reader is there after %v", took)
		}
	}
	c.thaw()
	if line := c.do("renew k 1000"); line != "lost" {
		t.Errorf("renewal by the reader whose lease has expired: %s", line)
	}
	if n := readers(t, b); n != 1 {
		t.Errorf("%d readers", n)
	}
	writer := queue(t.Context(), t, b, request("k", time.Minute, true))
	mustRelease(t, long)
	mustRelease(t, (<-writer).granted(t))
}

// If the reader whose lease ends last releases it, the waiting writer is granted the key as soon as the remaining
// lease, of a dead reader, has expired.
func TestReleaseBesideDeadReader(t *testing.T) {
	t.Parallel()
	const ttl = 700 * time.Millisecond
	dir := t.TempDir()
	b := open(t, dir)
	long := mustShare(t, b, time.Hour)
	mustShare(t, open(t, dir), ttl) // this lease is not renewed
	watch := startWatch(t)
	writer := queue(t.Context(), t, b, request("k", time.Minute, true))
	mustRelease(t, long)
	(<-writer).granted(t)
	if took, most := watch.took(), ttl+b.Guarantees().MaxLate; took > most {
		t.Errorf("granted after %v, want %v at most", took, most)
	}
}

// A reader that is frozen when it is granted the key does not delay the readers beside it. It delays the writer behind
// it until the writer polls after the end of the reader's reservation.
func TestFrozenReaderIsAdmitted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	held := mustTry(t, b, "k", time.Hour)
	c := start(t, dir, "shell")
	c.send("shared-wait k 60000")
	eventually(t, "the reader is queued", func() bool { return waiters(t, b, "k") == 1 })
	beside := queue(t.Context(), t, b, sharedRequest(time.Minute, true))
	writer := queue(t.Context(), t, b, request("k", time.Minute, true))
	c.freeze()
	watch := startWatch(t)
	mustRelease(t, held)
	mustRelease(t, (<-beside).granted(t))
	if took := watch.took(); took > file.ClaimGrace/2 {
		t.Errorf("the reader beside the frozen one came after %v", took)
	}
	w := (<-writer).granted(t)
	if took, most := watch.took(), file.PollEvery*3/2; took > most {
		t.Errorf("the writer came after %v, want %v at most", took, most)
	}
	c.thaw()
	mustRelease(t, w)
	if line := c.answer(); len(line) < 2 || line[:2] != "ok" {
		t.Errorf("the frozen reader, thawed: %s", line)
	}
}

// Break ends the lease of one reader. Resume returns the lease of one reader, but only in its own mode.
func TestBreakAndResumeReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, other := open(t, dir), open(t, dir)
	r := sharedRequest(time.Minute, false)
	broken, err := b.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	kept := sharedRequest(time.Hour, false)
	l, err := b.Acquire(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Break(t.Context(), "k", r.Owner); err != nil {
		t.Fatal(err)
	}
	if err := other.Break(t.Context(), "k", r.Owner); !errors.Is(err, backend.ErrLost) {
		t.Errorf("second break: %v, want ErrLost", err)
	}
	if err := broken.Renew(t.Context(), time.Minute); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renewal of the broken lease: %v, want ErrLost", err)
	}
	if err := l.Renew(t.Context(), time.Minute); err != nil || readers(t, b) != 1 {
		t.Errorf("renewal of the other one: %v, %d readers", err, readers(t, b))
	}
	exclusive := kept
	exclusive.Shared = false
	if _, err := other.Resume(t.Context(), exclusive); !errors.Is(err, backend.ErrLost) {
		t.Errorf("resumed as exclusive: %v, want ErrLost", err)
	}
	if _, err := other.Resume(t.Context(), r); !errors.Is(err, backend.ErrLost) {
		t.Errorf("resumed after the break: %v, want ErrLost", err)
	}
	again, err := other.Resume(t.Context(), kept)
	if err != nil || again.Token() != l.Token() {
		t.Fatalf("resumed: %v", err)
	}
	mustRelease(t, again)
	mustRelease(t, mustTry(t, b, "k", time.Minute))
}

// Hundreds of readers that wait in one process are granted the key together.
func TestManyReadersEnterTogether(t *testing.T) {
	t.Parallel()
	const many = 300
	dir := t.TempDir()
	b, other := open(t, dir), open(t, dir)
	held := mustTry(t, b, "k", time.Hour)
	leases := make(chan result, many)
	for range many {
		go func() {
			l, err := other.Acquire(t.Context(), sharedRequest(time.Hour, true))
			leases <- result{l, err}
		}()
	}
	eventually(t, "the readers are queued", func() bool { return waiters(t, b, "k") == many })
	mustRelease(t, held)
	if n := readers(t, b); n != many {
		t.Errorf("%d readers right after the writer's release, want %d", n, many)
	}
	watch := startWatch(t)
	var all []backend.Lease
	for range many {
		all = append(all, (<-leases).granted(t))
	}
	t.Logf("%d readers entered in %v", many, watch.took())
	if n := readers(t, b); n != many {
		t.Errorf("%d readers", n)
	}
	mustRelease(t, all...)
	mustRelease(t, mustTry(t, b, "k", time.Minute))
}

// A request by an owner that holds the key in the other mode is refused. If it were taken for a repeated request, a
// reader would become a writer beside other readers.
func TestRepeatedRequestHasSameMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, other := open(t, dir), open(t, dir)
	for _, shared := range []bool{false, true} {
		r := request("k", time.Minute, false)
		r.Shared = shared
		held, err := b.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		leases := []backend.Lease{held}
		if shared {
			leases = append(leases, mustShare(t, other, time.Minute))
		}
		r.Shared = !shared
		if _, err := other.Acquire(t.Context(), r); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("held with shared %v, requested with shared %v: %v, want ErrHeld", shared, !shared, err)
		}
		mustRelease(t, leases...)
	}
}
