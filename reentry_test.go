package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

func TestSelfDeadlockIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		lease := acquire(t, a, "k")
		ctx := context.WithValue(lease.Context(t.Context()), struct{ string }{"x"}, 1)
		for _, try := range []func(context.Context, string, ...lock.AcquireOption) (*lock.Lease, error){a.Acquire,
			a.TryAcquire} {
			_, err := try(ctx, "k")
			wantErr(t, err, lock.ErrDeadlock)
		}
		// The same under the context of another key's lease.
		inner, err := a.Acquire(ctx, "other")
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Acquire(inner.Context(ctx), "k")
		wantErr(t, err, lock.ErrDeadlock)
		release(t, inner)
		// b is another Locker, so a's lease is not re-entered: the call waits.
		_, err = b.Acquire(ctx, "k", lock.WithWait(time.Second))
		wantErr(t, err, lock.ErrHeld)
		release(t, lease)
		_, err = a.Acquire(ctx, "k")
		wantErr(t, err, context.Canceled)
		// A context that carries the released lease and has not ended: the key is acquired anew.
		lease, err = a.Acquire(context.WithoutCancel(ctx), "k")
		if err != nil {
			t.Fatal(err)
		}
		release(t, lease)
	})
}

func TestReentrant(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		outer := acquire(t, a, "k")
		inner, err := a.Acquire(outer.Context(t.Context()), "k", lock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		third, err := a.TryAcquire(inner.Context(t.Context()), "k", lock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		if inner.Token() != outer.Token() || inner.Owner() != outer.Owner() {
			t.Error("re-entry made another lease")
		}
		innerCtx := inner.Context(t.Context())
		release(t, inner)
		release(t, inner) // counts once
		wantErr(t, innerCtx.Err(), context.Canceled)
		if outer.Context(t.Context()).Err() != nil || outer.Err() != nil {
			t.Error("an inner release ended the outer lease")
		}
		wantErr(t, inner.Err(), lock.ErrReleased)
		busy(t, b, "k")
		release(t, outer)
		busy(t, b, "k") // only the last release frees the key, whichever handle it is
		if third.Err() != nil {
			t.Error(third.Err())
		}
		release(t, third)
		free(t, b, "k")
	})
}

func TestReentrantLoss(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		outer := acquire(t, a, "k", lock.WithMaxHold(time.Minute))
		inner, err := a.Acquire(outer.Context(t.Context()), "k", lock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		<-inner.Context(t.Context()).Done()
		synctest.Wait() // contexts end one after the other
		wantErr(t, context.Cause(inner.Context(t.Context())), lock.ErrLost)
		wantErr(t, context.Cause(outer.Context(t.Context())), lock.ErrLost)
		wantErr(t, inner.Release(t.Context()), lock.ErrLost)
		wantErr(t, outer.Release(t.Context()), lock.ErrLost)
		wantErr(t, inner.Release(t.Context()), lock.ErrLost)
		time.Sleep(time.Minute)
		free(t, b, "k")
	})
}

// If the lease is released during a re-entry, Acquire either shares the lease or acquires the key anew. Both results
// are live leases.
func TestReentryRacesWithRelease(t *testing.T) {
	a := locker(t, memory.New())
	for range 3000 {
		outer := acquire(t, a, "k")
		ctx := context.WithoutCancel(outer.Context(t.Context()))
		var wg sync.WaitGroup
		wg.Go(func() { release(t, outer) })
		inner, err := a.Acquire(ctx, "k", lock.Reentrant())
		wg.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if inner.Err() != nil {
			t.Error(inner.Err())
		}
		release(t, inner)
		free(t, a, "k")
	}
}

// A pausedStore's leases have ended once paused is set, but notify nobody, like those of a process that continues after
// a long pause and whose timers have not run yet.
type pausedStore struct {
	backend.Backend
	paused *atomic.Bool
}

func (s pausedStore) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := s.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return pausedLease{l, s.paused}, nil
}

type pausedLease struct {
	backend.Lease
	paused *atomic.Bool
}

func (l pausedLease) Deadline() time.Time {
	if l.paused.Load() {
		return time.Now().Add(-time.Second)
	}
	return l.Lease.Deadline()
}

// A lease whose deadline has passed is not re-entered, even if its holder has not been notified of the loss yet.
func TestReentryChecksTheClock(t *testing.T) {
	paused := new(atomic.Bool)
	a := locker(t, pausedStore{memory.New(), paused})
	outer := acquire(t, a, "k", lock.WithoutRenewal())
	ctx := outer.Context(t.Context())
	paused.Store(true)
	inner, err := a.TryAcquire(ctx, "k", lock.Reentrant())
	wantErr(t, err, lock.ErrHeld)
	if err == nil {
		release(t, inner)
	}
	paused.Store(false)
	inner, err = a.TryAcquire(ctx, "k", lock.Reentrant())
	if err != nil {
		t.Fatal(err)
	}
	release(t, inner)
	release(t, outer)
}
