package conformance_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// A touching is a client of a correct store that keeps leases for at most MaxSilence without contact to the client.
type touching struct{ *client }

const touch = 200 * time.Millisecond

func (c touching) Guarantees() backend.Guarantees {
	g := c.client.Guarantees()
	g.MaxSilence = touch
	return g
}

func (c touching) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := c.client.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return touchedLease{l}, nil
}

func (c touching) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	time.Sleep(time.Millisecond) // sleeps: the deadlines move
	touched := slices.Clone(renewals)
	for i, r := range renewals {
		touched[i].Lease = r.Lease.(touchedLease).Lease
	}
	return c.client.RenewBatch(ctx, touched)
}

// A touchedLease has a deadline that moves forward by itself.
type touchedLease struct{ backend.Lease }

func (l touchedLease) Deadline() time.Time {
	end, near := l.Lease.Deadline(), backend.Deadline(time.Now(), touch)
	if near.Before(end) {
		return near
	}
	return end
}

func (l touchedLease) Renew(ctx context.Context, ttl time.Duration) error {
	time.Sleep(time.Millisecond) // sleeps: the deadline moves
	return l.Lease.Renew(ctx, ttl)
}

// If MaxSilence limits every deadline, checks must not take a deadline at that limit for too early, or for moved by a
// request that failed.
func TestRenewalsOfTouchedLeases(t *testing.T) {
	for _, check := range []string{"RenewKeepsAlive", "RenewRacesExpiry", "RenewHonoursContext"} {
		t.Run(check, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("")
				defer close(s.stop)
				open := func(context.Context) (backend.Backend, error) { return touching{newClient(s)}, nil }
				passes(t, conformance.Harness{Open: open}, conformance.Options{Run: only(check)})
			})
		})
	}
}
