package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// A mute is a client of a correct server. Some requests of one kind get no reply within the client's own timeout, as on
// a machine that stands still.
type mute struct {
	*client
	once *muteness
}

type muteness struct {
	kind  string             // of the requests; empty for every kind
	mutes func(i int64) bool // whether request i, counted from 1, gets no reply
	asked atomic.Int64
}

// answered counts a request of that kind. If the request gets no reply, answered returns the error after the timeout.
func (m *muteness) answered(kind string) error {
	if m.kind != "" && kind != m.kind {
		return nil
	}
	if !m.mutes(m.asked.Add(1)) {
		return nil
	}
	const timeout = 2 * time.Second
	time.Sleep(timeout) // sleeps: no reply arrives
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
	return muteLease{l.(*kit.Life), c.once}, nil
}

func (c mute) Break(ctx context.Context, key, owner string) error {
	if c.server.inspect(key).Owner == owner {
		if c.once.answered("break answered late") != nil { // the first Break takes effect, and the client repeats it
			_ = c.client.Break(ctx, key, owner)
		}
		if err := c.once.answered("break"); err != nil {
			return err
		}
	}
	return c.client.Break(ctx, key, owner)
}

func (c mute) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	renewals = slices.Clone(renewals)
	for i := range renewals {
		renewals[i].Lease = renewals[i].Lease.(muteLease).Life
	}
	return c.client.RenewBatch(ctx, renewals)
}

type muteLease struct {
	*kit.Life
	once *muteness
}

func (l muteLease) Renew(ctx context.Context, ttl time.Duration) error {
	const some = 10 * time.Second // shorter leases may expire before the timeout
	if ttl > some {
		if err := l.once.answered("renewal"); err != nil {
			return err
		}
	}
	return l.Life.Renew(ctx, ttl)
}

// TestUnansweredRequestProvesNothing leaves one request of a check without a reply. The check must pass.
func TestUnansweredRequestProvesNothing(t *testing.T) {
	for _, test := range []struct {
		check, kind string
		number      int64 // of the request that gets no reply
	}{
		{"ClientsShareStore", "attempt", 3}, // the first attempt is for a fresh key, before all checks
		{"OneAttemptWins", "attempt", 4},
		{"OnLostCallsWhateverEndsIt", "renewal", 1},
		{"BreakEndsOneLease", "break", 1},
		{"BreakEndsOneLease", "break answered late", 1},
		{"ExclusiveAcrossClients", "wait", 5},
		{"ExclusiveUnderExpiry", "wait", 2},
		{"WaiterGetsExpiredKey", "wait", 3},
		{"ManyWaitersDrain", "wait", 7},
		{"ContentionParksNobody", "wait", 9},
		{"LateAnswerCountsFromSending", "wait", 1}, // of a client without a fault
		{"PartitionLosesBeforeNext", "wait", 1},
		{"KilledHolderFreesKey", "wait", 1},
		{"RestartKeepsWaiters", "wait", 1}, // before the restart
	} {
		t.Run(test.check+"/"+test.kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("")
				defer close(s.stop)
				once := &muteness{kind: test.kind, mutes: func(i int64) bool { return i == test.number }}
				once.passes(t, s, test.check)
				if n := once.asked.Load(); n < test.number {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// passes runs check on a store with m. The check must pass.
func (m *muteness) passes(t *testing.T, s *server, check string) {
	t.Helper()
	h := s.harness()
	h.Open = func(context.Context) (backend.Backend, error) { return mute{newClient(s), m}, nil }
	passes(t, h, conformance.Options{Run: only(check), Timeout: time.Hour})
}

// TestDeterministicBugIsNoSlowMachine leaves requests of one kind without a reply in every attempt. The check must
// fail, and must not report a slow machine.
func TestDeterministicBugIsNoSlowMachine(t *testing.T) {
	for _, test := range []struct{ check, kind, rule, says string }{
		{"OnLostCallsWhateverEndsIt", "renewal", "Backend: a store that is up answers", "no answer after"},
		{"WaiterGetsReleasedKey", "wait", "Backend: a store that is up answers", "no answer after"},
		{"BreakEndsOneLease", "break answered late", "", "lease lost after"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer("")
			defer close(s.stop)
			never := &muteness{kind: test.kind, mutes: func(int64) bool { return true }}
			h := s.harness()
			h.Open = func(context.Context) (backend.Backend, error) { return mute{newClient(s), never}, nil }
			results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: only(test.check), Timeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Status != conformance.Fail || r.Broken == "" || !strings.HasPrefix(r.Broken, test.rule) ||
				strings.Contains(r.Output, "slow") {
				t.Errorf("%s: %s, broken rule %q: %s", test.check, r.Status, r.Broken, r.Output)
			}
			if line, _, _ := strings.Cut(r.Output, "\n"); !strings.Contains(line, ".go:") || !strings.Contains(line, test.says) {
				t.Errorf("%s: what was seen does not come first: %s", test.check, r.Output)
			}
		})
	}
}

// TestSlowStoreIsWaitedFor runs a store that replies to no request for a while, or not to every seventh attempt. The
// check must pass.
func TestSlowStoreIsWaitedFor(t *testing.T) {
	for _, test := range []struct {
		kind  string
		every int64         // one request in every so many gets no reply
		until time.Duration // how long the fault lasts, from the beginning
	}{{"", 1, 7 * time.Second}, {"attempt", 7, 25 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer("")
			defer close(s.stop)
			begun := time.Now()
			mutes := func(i int64) bool { return i%test.every == 0 && time.Since(begun) < test.until }
			first := &muteness{kind: test.kind, mutes: mutes}
			first.passes(t, s, "KeysAreBytes")
		})
	}
}

// A lazy is a client that connects at its first request, which is slow.
type lazy struct {
	*client
	asked atomic.Bool
}

func (c *lazy) connected() *client {
	if !c.asked.Swap(true) {
		time.Sleep(time.Second) // sleeps: the client connects
	}
	return c.client
}

func (c *lazy) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return c.connected().Acquire(ctx, r)
}

func (c *lazy) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return c.connected().Inspect(ctx, key)
}

// TestSlowOpenExcusesNothing runs a store with a bug, whose clients are slow to open or to connect. The check must
// fail.
func TestSlowOpenExcusesNothing(t *testing.T) {
	for what, open := range map[string]func(s *server) backend.Backend{
		"open": func(s *server) backend.Backend {
			time.Sleep(time.Second) // sleeps: the client connects
			return newClient(s)
		},
		"connect": func(s *server) backend.Backend { return &lazy{client: newClient(s)} },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("queue is last in, first out")
				defer close(s.stop)
				h := s.harness()
				h.Open = func(context.Context) (backend.Backend, error) { return open(s), nil }
				results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: only("FIFO"), Timeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if r := results[0]; r.Status != conformance.Fail || strings.Contains(r.Output, "took") {
					t.Errorf("%s: %s", r.Status, r.Output)
				}
			})
		})
	}
}

// TestProcessIsStartedAgain makes the first start of a process fail. The check must pass.
func TestProcessIsStartedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		h, first := s.harness(), new(atomic.Bool)
		h.Process = func(ctx context.Context, skew time.Duration) (conformance.Process, error) {
			if first.CompareAndSwap(false, true) {
				return nil, errors.New("no client in time")
			}
			return s.process(ctx, skew)
		}
		passes(t, h, conformance.Options{Run: only("WrongClockKeepsOrder")})
	})
}
