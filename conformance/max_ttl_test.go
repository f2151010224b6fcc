package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// A confined is a client of a correct store that grants a narrow range of TTLs, and is slow.
type confined struct {
	backend.Backend
	g       backend.Guarantees
	latency time.Duration
}

func (c confined) Guarantees() backend.Guarantees { return c.g }

func (c confined) allow(ttl time.Duration) error {
	time.Sleep(c.latency) // sleeps: the request is under way
	if ttl > c.g.MaxTTL {
		return fmt.Errorf("%w: ttl %v is longer than %v", backend.ErrInvalid, ttl, c.g.MaxTTL)
	}
	return nil
}

func (c confined) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := c.allow(r.TTL); err != nil {
		return nil, err
	}
	r.TTL = c.g.Round(r.TTL)
	l, err := c.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return confinedLease{l, c}, nil
}

type confinedLease struct {
	backend.Lease
	c confined
}

func (l confinedLease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := l.c.allow(ttl); err != nil {
		return err
	}
	return l.Lease.Renew(ctx, l.c.g.Round(ttl))
}

func (l confinedLease) Release(ctx context.Context) error {
	time.Sleep(l.c.latency) // sleeps: the request is under way
	return l.Lease.Release(ctx)
}

// confine runs checks on a store with MinTTL least and MaxTTL most.
func confine(t *testing.T, checks string, least, most, latency time.Duration) ([]conformance.Result, error) {
	s := newServer("")
	defer close(s.stop)
	h := s.harness()
	open := h.Open
	h = conformance.Harness{Open: func(ctx context.Context) (backend.Backend, error) {
		b, err := open(ctx)
		g := b.Guarantees()
		g.MinTTL, g.MaxTTL, g.Granularity = least, most, time.Second
		return confined{b, g, latency}, err
	}}
	return conformance.Execute(t.Context(), h, conformance.Options{Run: regexp.MustCompile(checks), Timeout: time.Hour})
}

// TestShortMaxTTL proves that checks request no TTL that the store refuses, and do not outlast a lease that they need.
func TestShortMaxTTL(t *testing.T) {
	for _, test := range []struct {
		checks               string
		least, most, latency time.Duration
	}{
		{"DeadlineHasMargin|WaitOutlivesOwnTTL|RenewShortens", time.Second, 45 * time.Second, 0},
		{"DeadlineHasMargin|WaitOutlivesOwnTTL|RenewShortens", 5 * time.Second, 40 * time.Second, 0},
		{"OddKeysAreWaitedFor", time.Second, 14 * time.Second, 150 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%v to %v", test.least, test.most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				results, err := confine(t, test.checks, test.least, test.most, test.latency)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range results {
					if r.Status != conformance.Pass {
						t.Errorf("%s: %s: %s", r.Name, r.Status, r.Output)
					}
				}
			})
		})
	}
}

// Execute rejects a store whose range of TTLs is too narrow for the suite.
func TestTooShortMaxTTL(t *testing.T) {
	if _, err := confine(t, "^$", 5*time.Second, 30*time.Second, 0); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("TTLs from 5 s to 30 s: %v, want ErrInvalid", err)
	}
}
