package conformance_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// A walled is a client whose deadlines have no reading of the monotonic clock.
type walled struct{ *client }

func (c walled) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := c.client.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return walledLease{l}, nil
}

type walledLease struct{ backend.Lease }

func (l walledLease) Deadline() time.Time { return l.Lease.Deadline().Round(0) }

// A deadline must have a reading of the monotonic clock. Only real time shows that: times of testing/synctest have none.
func TestDeadlineOfWallClockFails(t *testing.T) {
	t.Parallel()
	s := newServer("")
	defer close(s.stop)
	open := func(context.Context) (backend.Backend, error) { return walled{newClient(s)}, nil }
	results, err := conformance.Execute(t.Context(), conformance.Harness{Open: open},
		conformance.Options{Run: only("DeadlineHasMargin")})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Status != conformance.Fail || !strings.Contains(r.Output, "monotonic") {
		t.Errorf("%s: %s", r.Status, r.Output)
	}
}
