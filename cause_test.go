package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
)

// The cause of a context's end may be an error about another lock, as with errgroup or under the context of another
// lease. The errors of this lock then do not match the errors of that lock.
func TestCauseFromAnotherLock(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		other := acquire(t, b, "other")
		_, heldErr := a.TryAcquire(t.Context(), "other")
		wantErr(t, heldErr, lock.ErrHeld)
		lostLease := acquire(t, a, "lost", lock.WithoutRenewal())
		<-lostLease.Lost()
		lease := acquire(t, a, "k")
		for _, cause := range []error{heldErr, context.Cause(lostLease.Context(t.Context()))} {
			// only checks that err is about this lock alone. If the call waited for a holder, that is waited, and err describes
			// it. Otherwise waited is nil.
			only := func(op, key string, err error, waited *lock.Lease) {
				t.Helper()
				wantErr(t, err, context.Canceled)
				var e *lock.Error
				if !errors.As(err, &e) || e.Op != op || e.Key != key {
					t.Errorf("%v is not an Error of %s %q", err, op, key)
				}
				var held *lock.HeldError
				if busy := errors.As(err, &held); errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrHeld) != (waited != nil) ||
					busy != (waited != nil) || busy && held.Holder.Owner != waited.Owner() {
					t.Errorf("%v is about another lock", err)
				}
			}
			// waiting at the store, and at the gate
			for key, holder := range map[string]*lock.Lease{"other": other, "k": lease} {
				ctx, cancel := context.WithCancelCause(t.Context())
				done := make(chan error)
				go func() {
					_, err := a.Acquire(ctx, key)
					done <- err
				}()
				synctest.Wait()
				cancel(cause)
				only("acquire", key, <-done, holder)
				_, err := a.Acquire(ctx, key)
				only("acquire", key, err, nil)
				only("renew", "k", lease.Renew(ctx, time.Minute), nil)
			}
		}
		if lease.Err() != nil {
			t.Error(lease.Err())
		}
		release(t, lease)
		release(t, other)
		wantErr(t, lostLease.Release(t.Context()), lock.ErrLost)
	})
}

// If the cause is an error of another lock, the error still names this call. It also matches the network error in the
// cause.
func TestCauseIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *lock.Locker) {
		ctx, cancel := context.WithCancelCause(t.Context())
		broken := errors.New("connection reset")
		cancel(&lock.Error{Op: "inspect", Key: "other", Err: broken})
		_, err := a.Acquire(ctx, "k")
		wantErr(t, err, broken)
		var e *lock.Error
		if !errors.As(err, &e) || e.Op != "acquire" || e.Key != "k" {
			t.Errorf("%v is not an Error of this acquire", err)
		}
	})
}
