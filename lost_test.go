package lock_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// If a holder hangs until its lease is lost, other goroutines of its process can acquire the key.
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
		wantErr(t, hung.Release(t.Context()), lock.ErrLost) // does not admit a third goroutine
		busy(t, a, "k")
		if next.Err() != nil {
			t.Error(next.Err())
		}
		release(t, next)
		release(t, <-got)

		// The same with an empty queue, and under the context of the lost lease.
		lease := acquire(t, a, "k", lock.WithoutRenewal())
		ctx := context.WithoutCancel(lease.Context(t.Context()))
		<-lease.Lost()
		time.Sleep(time.Second) // the deadline is a little earlier than the store's expiry
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

// After hand-offs, the loss of a lease reaches its present holder alone, even if the lease is not a LossNotifier.
func TestLossAfterHandoff(t *testing.T) {
	for name, store := range map[string]func() backend.Backend{
		"callback": func() backend.Backend { return memory.New() },
		"channel":  func() backend.Backend { return plainStore{memory.New()} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := locker(t, store(), lock.WithTTL(ttl), lock.WithoutRenewal())
				first := acquire(t, l, "k")
				got := queue(t, l, 2)
				release(t, first)
				second := <-got
				release(t, second)
				third := <-got
				if third.Owner() != first.Owner() {
					t.Error("the lease was not handed on")
				}
				<-third.Lost()
				wantErr(t, third.Err(), lock.ErrLost)
				for _, earlier := range []*lock.Lease{first, second} {
					if lost(earlier) {
						t.Error("an earlier holder is notified")
					}
					wantErr(t, earlier.Err(), lock.ErrReleased)
				}
				wantErr(t, third.Release(t.Context()), lock.ErrLost)
			})
		})
	}
}

// A logger that blocks does not delay the notification of other holders.
func TestBlockedLogDoesNotDelayLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		a := locker(t, memory.New(), lock.WithLogger(slog.New(blockedHandler{slog.DiscardHandler, blocked})))
		leases := []*lock.Lease{acquire(t, a, "1", lock.WithoutRenewal()), acquire(t, a, "2", lock.WithoutRenewal())}
		time.Sleep(time.Until(leases[1].Deadline()) + time.Millisecond)
		synctest.Wait()
		for _, l := range leases {
			if !lost(l) || l.Context(t.Context()).Err() == nil {
				t.Error("not notified of the loss")
			}
		}
		close(blocked)
		for _, l := range leases {
			wantErr(t, l.Release(t.Context()), lock.ErrLost)
		}
	})
}

type blockedHandler struct {
	slog.Handler
	until chan struct{}
}

func (blockedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (b blockedHandler) Handle(context.Context, slog.Record) error {
	<-b.until
	return nil
}
