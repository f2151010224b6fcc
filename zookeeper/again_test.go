package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// again makes b lock the key, and returns the number that it had last.
func again(t *testing.T, b *Backend, key string) int32 {
	t.Helper()
	for range 3 {
		release(t, acquire(t, b, waiting(key, countedTTL)))
	}
	b.turns.mu.Lock()
	defer b.turns.mu.Unlock()
	last, known := b.turns.last[b.dir(key)]
	if !known {
		t.Fatal("the last turn is not known: nothing is tested")
	}
	return last.number
}

// refusedSoon fails if an Acquire that may wait need not.
func refusedSoon(t *testing.T, b *Backend, key, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := b.Acquire(ctx, waiting(key, time.Minute)); err == nil {
		t.Errorf("granted while another has the key%s", why)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// A client that expects the next number reads nothing, and is not mistaken when another has come in between.
func TestAgain(t *testing.T) {
	t.Parallel()
	s := alone(t)
	b, f := counted(t, s)
	other := opened(t, s.url())
	cycle := func() { release(t, acquire(t, b, waiting("k", countedTTL))) }
	again(t, b, "k")
	if got := f.during(cycle); got != "create 1 delete 1 " {
		t.Errorf("again: %s", got)
	}
	release(t, acquire(t, other, waiting("k", time.Minute)))
	if got := f.during(cycle); got != "children 1 create 1 delete 1 " {
		t.Errorf("after another: %s", got)
	}
	again(t, b, "k")
	l := acquire(t, other, waiting("k", time.Minute))
	refusedSoon(t, b, "k", "")
	release(t, l)
	cycle() // nobody has it now

	// A place that was moved keeps its name.
	again(t, b, "k")
	l = acquire(t, other, waiting("k", countedTTL/4))
	if err := l.Renew(t.Context(), countedTTL); err != nil {
		t.Fatal(err)
	}
	refusedSoon(t, b, "k", ", in another session")
}

// In a container that was removed and made anew the next number may be the one that is expected, while another has the key.
func TestAgainInAnotherContainer(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b, other := opened(t, s.url()), opened(t, s.url())
	last := again(t, b, "k")
	if err := c.Delete(b.dir("k"), -1); err != nil {
		t.Fatal(err)
	}
	var l backend.Lease
	for range last + 1 {
		if l != nil {
			release(t, l)
		}
		l = acquire(t, other, waiting("k", time.Minute))
	}
	if n := places(t, c, other, "k")[0].number; n != last {
		t.Fatalf("number %d, want %d: the next one is not what is expected", n, last)
	}
	refusedSoon(t, b, "k", "")
}

// What may be concluded from numbers and zxids, at the edges.
func TestTurnIsBefore(t *testing.T) {
	t.Parallel()
	const epoch = 5 << 32
	for _, c := range []struct {
		last, next  int32
		czxid, zxid uint64
		first       bool
		what        string
	}{
		{7, 8, epoch + 100, epoch + 102, true, "create, delete, create"},
		{7, 8, epoch + 100, epoch + 110, true, "one write less than a new container takes"},
		{7, 8, epoch + 100, epoch + 111, false, "delete, delete of the container, and nine creates"},
		{0, 1, epoch + 100, epoch + 103, true, "one write less than a new container takes"},
		{0, 1, epoch + 100, epoch + 104, false, "delete, delete of the container, and two creates"},
		{7, 9, epoch + 100, epoch + 103, false, "another has come"},
		{7, 7, epoch + 100, epoch + 103, false, "the same number"},
		{7, 0, epoch + 100, epoch + 103, false, "a new container"},
		{7, 8, epoch - 2, epoch + 1, false, "another leader"},
		{7, 8, epoch + 100, epoch + 99, false, "an older node"},
		{1<<31 - 1, -1 << 31, epoch + 100, epoch + 102, false, "the counter has wrapped around"},
		{-5, -4, epoch + 100, epoch + 102, false, "the counter has wrapped around before"},
	} {
		if got := (turn{number: c.last, czxid: c.czxid}).isBefore(c.next, c.zxid); got != c.first {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
