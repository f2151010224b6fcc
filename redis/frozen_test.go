package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/storetest"
)

// If the processes of waiters are frozen, as in a paused virtual machine, the next waiter gets the key within
// deadWaitersCost. The server still has subscriptions of the frozen processes, and the releaser may have closed its
// Backend.
func TestFrozenWaitersCostOneReservationEach(t *testing.T) {
	// not parallel, because it measures reservations, which are short
	for name, test := range map[string]struct {
		frozen int
		gone   bool // the releaser closes its Backend
		again  bool // the releaser requests the key again, and is refused
	}{
		"two":                            {2, false, false},
		"two, and the releaser is back":  {2, false, true},
		"five, and the releaser is gone": {5, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			url := ownDatabase(t).URL
			next := opened(t, url)
			var frozen []conformance.Process
			for range test.frozen {
				p, err := process.Self(url)(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Kill()
				frozen = append(frozen, p)
			}
			limit := deadWaitersCost(test.frozen)
			took := leastOf(func(n int) (took time.Duration, enough bool) {
				key := string(rune('a' + n))
				holder := opened(t, url)
				l := acquire(t, holder, req(key, time.Hour))
				for i, p := range frozen {
					if _, err := p.Acquire(waiting(key, time.Minute)); err != nil {
						t.Fatal(err)
					}
					storetest.Queued(t, holder, key, i+1)
				}
				done := queueUp(t, next, waiting(key, time.Hour), len(frozen)+1)
				for _, p := range frozen {
					p.Freeze()
					defer p.Thaw()
				}
				begun := time.Now()
				release(t, l)
				if test.gone {
					if err := holder.Close(); err != nil {
						t.Error(err)
					}
				}
				if test.again {
					if _, err := holder.Acquire(t.Context(), req(key, time.Hour)); !errors.Is(err, backend.ErrHeld) {
						t.Errorf("acquire of a key that is kept for a waiter: %v", err)
					}
				}
				o := granted(t, done, limit+soon)
				took = o.At.Sub(begun)
				if err := o.Lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
				return took, took <= limit
			})
			t.Logf("the next one waited for %v", took)
			if took > limit {
				t.Errorf("behind %d frozen waiters the next was granted after %v, want within %v", test.frozen, took, limit)
			}
		})
	}
}
