package lock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
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
		// Through another key held meanwhile.
		inner, err := a.Acquire(ctx, "other")
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Acquire(inner.Context(ctx), "k")
		wantErr(t, err, lock.ErrDeadlock)
		release(t, inner)
		// Another Locker's key of that name is another lock's business: it waits.
		_, err = b.Acquire(ctx, "k", lock.WithWait(time.Second))
		wantErr(t, err, lock.ErrHeld)
		release(t, lease)
		_, err = a.Acquire(ctx, "k")
		wantErr(t, err, context.Canceled)
		// The values of the context without its end: not held any more.
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
		busy(t, b, "k") // the last release releases, whichever it is
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

// A lease that ends while it is being entered again is not held any more: the key is acquired as by anybody.
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
