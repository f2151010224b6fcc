package conformance_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// TestFewLeases proves that no check requests more leases than a client with a small MaxLeases can hold.
func TestFewLeases(t *testing.T) {
	t.Parallel()
	conformance.RunInBubble(t, func(*testing.T) conformance.Harness { return newServer("limited").harness() })
}

// A counting is a client of a correct store that records the TTLs of renewals.
type counting struct {
	backend.Backend
	renewed *sync.Map
}

func (c counting) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := c.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return countingLease{l, c.renewed}, nil
}

type countingLease struct {
	backend.Lease
	renewed *sync.Map
}

func (l countingLease) Renew(ctx context.Context, ttl time.Duration) error {
	l.renewed.Store(ttl, true)
	return l.Lease.Renew(ctx, ttl)
}

// If a client can hold only few leases at once, the check tries all TTLs, one after the other.
func TestFewLeasesTryAllTTLs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		var renewed sync.Map
		h := conformance.Harness{Many: 2, Open: func(context.Context) (backend.Backend,
			error) {
			return counting{newClient(s), &renewed}, nil
		}}
		results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: only("TinyRenewalsAreRoundedUp")})
		if err != nil || results[0].Status != conformance.Pass {
			t.Fatal(results, err)
		}
		for _, ttl := range []time.Duration{1, 5 * time.Millisecond, 10*time.Millisecond - 1} {
			if _, tried := renewed.Load(ttl); !tried {
				t.Errorf("no renewal for %v", ttl)
			}
		}
	})
}
