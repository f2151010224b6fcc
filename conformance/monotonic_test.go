package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// A walled is a client whose deadlines have no reading of the monotonic clock once they were set in one way: by
// "Acquire", "Acquire that waited", "Renew", "RenewBatch" or "Resume".
type walled struct {
	*client
	way string
}

func (c walled) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := c.client.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.wall(l, c.way == "Acquire" || r.Wait && c.way == "Acquire that waited"), nil
}

func (c walled) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := c.client.Resume(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.wall(l, c.way == "Resume"), nil
}

func (c walled) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	plain := slices.Clone(renewals)
	for i, r := range renewals {
		if l, ok := r.Lease.(*walledLease); ok {
			l.walled.Store(l.walled.Load() || l.way == "RenewBatch")
			plain[i].Lease = l.Lease
		}
	}
	return c.client.RenewBatch(ctx, plain)
}

func (c walled) wall(l backend.Lease, now bool) backend.Lease {
	w := &walledLease{Lease: l, way: c.way}
	w.walled.Store(now)
	return w
}

type walledLease struct {
	backend.Lease
	way    string
	walled atomic.Bool
}

func (l *walledLease) Renew(ctx context.Context, ttl time.Duration) error {
	l.walled.Store(l.walled.Load() || l.way == "Renew")
	return l.Lease.Renew(ctx, ttl)
}

func (l *walledLease) Deadline() time.Time {
	if l.walled.Load() {
		return l.Lease.Deadline().Round(0)
	}
	return l.Lease.Deadline()
}

// A deadline must have a reading of the monotonic clock, whatever has set it. Only real time shows that: times of
// testing/synctest have none.
func TestDeadlineOfWallClockFails(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"Acquire", "Acquire that waited", "Renew", "RenewBatch", "Resume"} {
		s := newServer("")
		defer close(s.stop)
		open := func(context.Context) (backend.Backend, error) { return walled{newClient(s), way}, nil }
		results, err := conformance.Execute(t.Context(), conformance.Harness{Open: open},
			conformance.Options{Run: only("DeadlineHasMargin")})
		if err != nil {
			t.Fatal(err)
		}
		r := results[0]
		if r.Status != conformance.Fail || !strings.Contains(r.Output, "after "+way+", the deadline has no reading") {
			t.Errorf("%s: %s: %s", way, r.Status, r.Output)
		}
	}
}
