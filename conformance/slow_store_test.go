package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// A mute is a client of a right server that once leaves requests of one kind unanswered until its own timeout has passed, as on a machine
// that stands still.
type mute struct {
	*client
	once *muteness
}

type muteness struct {
	kind  string // of the requests
	from  int64  // the first that has no answer
	n     int64  // how many have none
	asked atomic.Int64
}

// answered counts a request of that kind, and returns the error of one that has no answer.
func (m *muteness) answered(kind string) error {
	if kind != m.kind {
		return nil
	}
	if i := m.asked.Add(1); i < m.from || i >= m.from+m.n {
		return nil
	}
	const timeout = 2 * time.Second
	time.Sleep(timeout)
	return fmt.Errorf("%w: no answer in %v", backend.ErrUnavailable, timeout)
}

func (c mute) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	kind := "attempt"
	if r.Wait {
		kind = "wait"
	}
	if err := c.once.answered(kind); err != nil {
		return nil, err
	}
	l, err := c.client.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return muteLease{l.(*backend.Life), c.once}, nil
}

func (c mute) Break(ctx context.Context, key, owner string) error {
	if c.server.inspect(key).Owner == owner {
		if err := c.once.answered("break"); err != nil {
			return err
		}
	}
	return c.client.Break(ctx, key, owner)
}

type muteLease struct {
	*backend.Life
	once *muteness
}

func (l muteLease) Renew(ctx context.Context, ttl time.Duration) error {
	const some = 10 * time.Second // shorter ones may end by themselves
	if ttl > some {
		if err := l.once.answered("renewal"); err != nil {
			return err
		}
	}
	return l.Life.Renew(ctx, ttl)
}

// TestUnansweredRequestProvesNothing has one or more requests of a check go unanswered.
func TestUnansweredRequestProvesNothing(t *testing.T) {
	for _, test := range []struct {
		check, kind string
		from, n     int64
	}{
		{"ClientsShareStore", "attempt", 3, 1}, // the first is that of a fresh key, before all checks
		{"OneAttemptWins", "attempt", 4, 1},
		{"OnLostCallsWhateverEndsIt", "renewal", 1, 1},
		{"BreakEndsOneLease", "break", 1, 1},
		{"ExclusiveAcrossClients", "wait", 5, 1},
		{"ExclusiveUnderExpiry", "wait", 2, 1},
		{"WaiterGetsExpiredKey", "wait", 3, 1},
		{"ManyWaitersDrain", "wait", 7, 1},
		{"ContentionParksNobody", "wait", 9, 1},
	} {
		t.Run(test.check, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("")
				defer close(s.stop)
				once := &muteness{kind: test.kind, from: test.from, n: test.n}
				h := s.harness()
				h.Open = func(context.Context) (backend.Backend, error) { return mute{newClient(s), once}, nil }
				results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: only(test.check), Timeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if r := results[0]; r.Status != conformance.Pass || once.asked.Load() < test.from {
					t.Errorf("%s, after %d requests: %s", r.Status, once.asked.Load(), r.Output)
				}
			})
		})
	}
}

// TestProcessIsStartedAgain has the first process with a wrong clock not start.
func TestProcessIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := newServer("")
	defer close(s.stop)
	h, first := s.harness(), new(atomic.Bool)
	h.Process = func(ctx context.Context, skew time.Duration) (conformance.Process, error) {
		if first.CompareAndSwap(false, true) {
			return nil, errors.New("no client in time")
		}
		return s.process(ctx, skew)
	}
	results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: only("WrongClockKeepsOrder")})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Status != conformance.Pass {
		t.Errorf("%s: %s", r.Status, r.Output)
	}
}
