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

// A stalling is a client of a server that stands still once, for a second.
type stalling struct {
	*client
	s *stalled
}

type stalled struct {
	waiters int // it stands still soon after so many wait for a key; 0: soon after the first Acquire
	once    sync.Once
	mu      sync.Mutex
	until   time.Time
}

// stall makes the server stand still. It moves the first waiter of each queue to the end, as a store does with a waiter
// that does not respond in time. All leases end later by that time.
func (s *stalled) stall(server *server) {
	const length = time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(length)
	server.mu.Lock()
	defer server.mu.Unlock()
	for key, e := range server.keys {
		if n := len(e.queue); n > 0 {
			e.queue = append(e.queue[1:], e.queue[0])
		}
		e.expires = e.expires.Add(length)
		server.armLocked(key, e)
	}
}

func (c stalling) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	c.s.mu.Lock()
	until := c.s.until
	c.s.mu.Unlock()
	time.Sleep(time.Until(until)) // sleeps: the store stands still
	if c.s.waiters == 0 {
		c.stallsLater()
	}
	return c.client.Acquire(ctx, r)
}

func (c stalling) stallsLater() {
	const moment = 100 * time.Millisecond
	c.s.once.Do(func() { time.AfterFunc(moment, func() { c.s.stall(c.server) }) })
}

func (c stalling) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	h, err := c.client.Inspect(ctx, key)
	if c.s.waiters > 0 && h.Waiters == c.s.waiters {
		c.stallsLater()
	}
	c.s.mu.Lock()
	until := c.s.until
	c.s.mu.Unlock()
	time.Sleep(time.Until(until)) // sleeps: the store stands still
	return h, err
}

// TestStalledStoreProvesNothing makes a store stand still while a check waits for it. The check must pass.
func TestStalledStoreProvesNothing(t *testing.T) {
	for _, test := range []struct {
		check   string
		waiters int // 0: it stands still after the first Acquire
	}{{"FIFOAfterExpiry", 5}, {"LongQueueIsServed", 64}, {"TTLNotLate", 0}, {"ReleaseAfterExpiry", 0}} {
		t.Run(test.check, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("")
				defer close(s.stop)
				stall := &stalled{waiters: test.waiters}
				h := s.harness()
				h.Open = func(context.Context) (backend.Backend, error) { return stalling{newClient(s), stall}, nil }
				results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: only(test.check), Timeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if r := results[0]; r.Status != conformance.Pass || stall.until.IsZero() {
					t.Errorf("%s, stalled until %v: %s", r.Status, stall.until, r.Output)
				}
			})
		})
	}
}

// A tardy is a client of a server that pauses at the first request for a long lease.
type tardy struct {
	*client
	once *sync.Once
}

func (c tardy) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if r.TTL > 20*time.Second {
		c.once.Do(func() {
			const length = 1500 * time.Millisecond
			c.server.gate.Lock()
			time.AfterFunc(length, c.server.gate.Unlock)
		})
	}
	return c.client.Acquire(ctx, r)
}

// Guarantees returns a short MaxTTL, so that long leases have a small margin.
func (c tardy) Guarantees() backend.Guarantees {
	g := c.client.Guarantees()
	g.MaxTTL = time.Minute
	return g
}

// If a lease is granted long after its request, the store keeps it for longer than the holder knows. The check must
// pass.
func TestLateGrantProvesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		h, once := s.harness(), new(sync.Once)
		h.Open = func(context.Context) (backend.Backend, error) { return tardy{newClient(s), once}, nil }
		passes(t, h, conformance.Options{Run: only("RefusedAttemptChangesNothing")})
	})
}
