package locktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/locktest"
)

// transfer is code under test: it does its work in steps, alone, and stops when it may no longer write.
func transfer(ctx context.Context, locks *lock.Locker, account string, step func()) error {
	return locks.Do(ctx, "account/"+account, func(ctx context.Context, _ *lock.Lease) error {
		for range 10 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			step()
			time.Sleep(time.Minute) // sleeps: in fake time, as long as a step takes
		}
		return nil
	}, lock.WithWait(time.Second))
}

// This is the test in docs/testing-your-code.md.
func TestSettleStopsAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		time.AfterFunc(150*time.Second, func() { store.Lose("account/7") })
		steps := 0
		err := transfer(t.Context(), store.Locker(), "7", func() { steps++ })
		if !errors.Is(err, lock.ErrLost) || steps != 3 {
			t.Errorf("%v after %d steps", err, steps)
		}
	})
}
