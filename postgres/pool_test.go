package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// only returns the single session of b. The caller has its turn.
func only(t *testing.T, b *Backend) *session {
	t.Helper()
	b.pool.mu.Lock()
	var s *session
	for one := range b.pool.all {
		s = one
	}
	n := len(b.pool.all)
	b.pool.mu.Unlock()
	if n != 1 {
		t.Fatalf("%d sessions, want 1", n)
	}
	if err := s.acquireTurn(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.limit(context.Background(), soon) // a watch that was interrupted has left its deadline
	return s
}

// An attempt that may not wait leaves the line with ErrExhausted once every connection carries a lease or a queued
// waiter.
func TestExhaustedByWaiters(t *testing.T) {
	t.Parallel()
	b := opened(t, gentleURL(t)+"&lock_max_leases=4")
	for range 3 {
		defer release(t, acquire(t, b, req(backend.NewOwner(), time.Minute)))
	}
	h := &checkout{wait: true}
	defer b.pool.drop(h)
	if _, err := b.pool.checkOut(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	done := startAcquire(ctx, b, req(backend.NewOwner(), time.Minute))
	until(t, soon, "it asks for a connection", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return len(b.pool.waiting) == 1
	})
	if !b.pool.enterServerQueue(h) {
		t.Fatal("no place in the server's queue")
	}
	if o := <-done; !errors.Is(o.Err, ErrExhausted) {
		t.Errorf("%v, want ErrExhausted", o.Err)
	}
}

// If the context ends before the wait was sent, the session returns to the pool unused.
func TestWaitThatNeverBegan(t *testing.T) {
	t.Parallel()
	b := opened(t, gentleURL(t))
	s := only(t, b)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Acquire(ctx, waiting("k", time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the end of the context", err)
	}
	s.releaseTurn()
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if s.held != nil || b.pool.inUse != 0 || len(b.pool.idle) != 1 {
		t.Errorf("%d sessions are taken, %d are back", b.pool.inUse, len(b.pool.idle))
	}
}

// If the reply contains no valid token, no session returns to the pool with the lock.
func TestBadTokenLeavesNoLock(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL())
	bad := only(t, b)
	name := stTry.name()
	if _, err := bad.simple("DEALLOCATE " + name + "; PREPARE " + name +
		" (bigint, xid) AS SELECT CASE WHEN pg_try_advisory_lock($1) THEN 'x' || $2::text END; SELECT 1"); err != nil {
		t.Fatal(err)
	}
	bad.releaseTurn()
	if _, err := b.Acquire(context.Background(), req("k", time.Minute)); err == nil || errors.Is(err, backend.ErrHeld) {
		t.Errorf("%v, want an error of the token", err)
	}
	c := dialed(t, s.PostgresURL())
	until(t, soon, "no lock is left", func() bool { return locks(t, c) == 0 })
	release(t, acquire(t, b, req("k", time.Minute)))
}

// A connection is watched again after a goroutine has stopped waiting for the turn.
func TestWatchedAgain(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL())
	c := dialed(t, s.PostgresURL())
	l := acquire(t, b, req("k", time.Minute))
	held := l.(*kit.Life).Data.(*checkout).s
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		until(t, soon, "the connection is watched", held.isWatched)
		if held.acquireTurn(cancelled) != nil {
			break
		}
		held.releaseTurn() // the watch had already ended
	}
	until(t, soon, "the connection is watched again", held.isWatched)
	endSession(t, c, "k")
	lost(t, l, soon)
}

// A session that rests stays open if a goroutine stops waiting for its turn.
func TestGivenUpTurnKeepsSession(t *testing.T) {
	t.Parallel()
	b := opened(t, gentleURL(t))
	first := acquire(t, b, req(backend.NewOwner(), time.Minute))
	second := acquire(t, b, req(backend.NewOwner(), time.Minute))
	release(t, first)
	release(t, second)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	b.pool.mu.Lock()
	s := b.pool.idle[0]
	b.pool.mu.Unlock()
	for range 20 {
		until(t, soon, "the connection is watched", s.isWatched)
		if s.acquireTurn(cancelled) == nil {
			s.releaseTurn()
		}
		time.Sleep(2 * time.Millisecond) // sleeps: the watcher wakes up
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if n := len(b.pool.all); n != 2 {
		t.Errorf("%d sessions are left, want 2", n)
	}
}

// A connection is watched after each request, even if the watch timer fires before the turn has ended.
func TestWatchBeginsAfterTurn(t *testing.T) {
	t.Parallel()
	b := opened(t, gentleURL(t))
	b.pool.mu.Lock()
	b.pool.watchAfter = time.Nanosecond // as if the goroutine that ends the turn stalled for that time
	b.pool.mu.Unlock()
	l := acquire(t, b, req(backend.NewOwner(), time.Minute))
	for range 200 {
		until(t, soon, "the connection is watched", l.(*kit.Life).Data.(*checkout).s.isWatched)
		if err := l.Renew(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	release(t, l)
}
