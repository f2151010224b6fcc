package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// Errors of a released lease do not match ErrLost, and errors of a lost lease do not match ErrReleased.
func TestReleasedIsNotLost(t *testing.T) {
	is := func(t *testing.T, what string, err, want, not error) {
		t.Helper()
		if !errors.Is(err, want) || errors.Is(err, not) {
			t.Errorf("%s: %v, want one that matches %q and not %q", what, err, want, not)
		}
	}
	bubble(t, func(t *testing.T, a, _ *lock.Locker) {
		lease := acquire(t, a, "k")
		ctx := lease.Context(t.Context())
		release(t, lease)
		for range 2 {
			is(t, "Err", lease.Err(), lock.ErrReleased, lock.ErrLost)
			is(t, "Renew", lease.Renew(t.Context(), time.Minute), lock.ErrReleased, lock.ErrLost)
			is(t, "cause", context.Cause(ctx), lock.ErrReleased, lock.ErrLost)
			is(t, "cause", context.Cause(ctx), context.Canceled, lock.ErrLost)
			is(t, "cause of a late context", context.Cause(lease.Context(t.Context())), lock.ErrReleased, lock.ErrLost)
			time.Sleep(time.Hour) // long after its deadline
		}
		if lost(lease) {
			t.Error("Lost is closed")
		}

		expired := acquire(t, a, "k", lock.WithoutRenewal())
		<-expired.Lost()
		for range 2 {
			is(t, "Err", expired.Err(), lock.ErrLost, lock.ErrReleased)
			is(t, "Renew", expired.Renew(t.Context(), time.Minute), lock.ErrLost, lock.ErrReleased)
			is(t, "Release", expired.Release(t.Context()), lock.ErrLost, lock.ErrReleased)
		}
		is(t, "cause", context.Cause(expired.Context(t.Context())), lock.ErrLost, lock.ErrReleased)
	})
	synctest.Test(t, func(t *testing.T) { // the store answers the release with ErrLost
		f := newFaulty(memory.New())
		l := locker(t, f)
		lease := acquire(t, l, "k")
		f.set(func() { f.release = func(context.Context) error { return lock.ErrLost } })
		is(t, "Release", lease.Release(t.Context()), lock.ErrLost, lock.ErrReleased)
		is(t, "Err", lease.Err(), lock.ErrLost, lock.ErrReleased)
		is(t, "cause of a late context", context.Cause(lease.Context(t.Context())), lock.ErrLost, lock.ErrReleased)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		is(t, "Renew after Close", lease.Renew(t.Context(), time.Minute), lock.ErrLost, lock.ErrClosed)
		is(t, "cause after Close", context.Cause(lease.Context(t.Context())), lock.ErrLost, lock.ErrClosed)
	})
	bubble(t, func(t *testing.T, a, _ *lock.Locker) { // a lease that is lost before its Locker is closed
		lease := acquire(t, a, "k", lock.WithoutRenewal())
		<-lease.Lost()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		is(t, "Renew", lease.Renew(t.Context(), time.Minute), lock.ErrLost, lock.ErrClosed)
		is(t, "cause of a late context", context.Cause(lease.Context(t.Context())), lock.ErrLost, lock.ErrClosed)
		is(t, "Release", lease.Release(t.Context()), lock.ErrLost, lock.ErrClosed)
	})
	bubble(t, func(t *testing.T, a, _ *lock.Locker) { // re-entry
		outer := acquire(t, a, "k", lock.Reentrant())
		inner, err := a.Acquire(outer.Context(t.Context()), "k", lock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		release(t, inner)
		is(t, "inner Err", inner.Err(), lock.ErrReleased, lock.ErrLost)
		if outer.Err() != nil {
			t.Error(outer.Err())
		}
		release(t, outer)
	})
	bubble(t, func(t *testing.T, a, _ *lock.Locker) { // the outer lease is lost after the release of the inner one
		outer := acquire(t, a, "k", lock.WithoutRenewal())
		inner, err := a.Acquire(outer.Context(t.Context()), "k", lock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		release(t, inner)
		<-outer.Lost()
		is(t, "inner Err", inner.Err(), lock.ErrReleased, lock.ErrLost)
		is(t, "inner Renew", inner.Renew(t.Context(), time.Minute), lock.ErrReleased, lock.ErrLost)
		is(t, "inner cause", context.Cause(inner.Context(t.Context())), lock.ErrReleased, lock.ErrLost)
		release(t, inner)
		is(t, "outer Release", outer.Release(t.Context()), lock.ErrLost, lock.ErrReleased)
	})
}

// ErrDeadlock does not match ErrHeld, so that code that skips busy keys does not hide a programming error.
func TestDeadlockIsNotHeld(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *lock.Locker) {
		lease := acquire(t, a, "k")
		defer release(t, lease)
		for _, acquire := range []func(context.Context, string, ...lock.AcquireOption) (*lock.Lease, error){a.Acquire,
			a.TryAcquire} {
			if _, err := acquire(lease.Context(t.Context()), "k", lock.WithWait(time.Second)); !errors.Is(err,
				lock.ErrDeadlock) || errors.Is(err, lock.ErrHeld) {
				t.Errorf("%v, want ErrDeadlock alone", err)
			}
		}
	})
}

// A second Release waits for the first, without a mutex: a goroutine that waits for a mutex would stop the time of a
// synctest bubble.
func TestReleaseTwiceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		lease := acquire(t, locker(t, f), "k")
		f.set(func() { f.release = func(context.Context) error { time.Sleep(time.Second); return nil } })
		begun := time.Now()
		first := make(chan struct{})
		go func() {
			defer close(first)
			release(t, lease)
		}()
		synctest.Wait()
		release(t, lease)
		<-first
		if took := time.Since(begun); took != time.Second {
			t.Errorf("released twice in %v", took)
		}
		if _, _, releases := f.counts(); releases != 1 {
			t.Errorf("%d releases of the store", releases)
		}
	})
}
