package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/anylock/lock"
)

// A holder that hangs and never releases does not keep the key from the goroutines of its own process.
func TestLostLeaseIsOutOfTheWay(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *lock.Locker) {
		hung := acquire(t, a, "k", lock.WithMaxHold(time.Minute))
		got := queue(t, a, 2, lock.WithWait(time.Hour))
		<-hung.Lost()
		next := <-got
		if next == nil {
			return
		}
		if next.Owner() == hung.Owner() || next.Token() <= hung.Token() {
			t.Error("a lost lease was handed on")
		}
		wantErr(t, hung.Renew(t.Context(), time.Hour), lock.ErrLost)
		wantErr(t, hung.Release(t.Context()), lock.ErrLost) // does not let a third one pass
		busy(t, a, "k")
		if next.Err() != nil {
			t.Error(next.Err())
		}
		release(t, next)
		release(t, <-got)

		// The same without anybody in the queue, and under the lost lease's own context.
		lease := acquire(t, a, "k", lock.WithoutRenewal())
		ctx := context.WithoutCancel(lease.Context())
		<-lease.Lost()
		time.Sleep(time.Second) // the holder's deadline is a little earlier than the store's
		again, err := a.TryAcquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		busy(t, a, "k")
		release(t, again)
		free(t, a, "k")
	})
}
