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

// A loitering is a client of a correct store, on a machine that stands still once while the store is full, for longer
// than a lease lasts.
type loitering struct {
	*client
	before string // the request before which the machine stands still
	once   *sync.Once
}

func (c loitering) loiters(before string) {
	c.server.mu.Lock()
	full := c.server.full
	c.server.mu.Unlock()
	if full && before == c.before {
		const longer = 2 * time.Second
		c.once.Do(func() { time.Sleep(longer) }) // sleeps: the machine stands still, in fake time
	}
}

func (c loitering) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	c.loiters("Inspect")
	return c.client.Inspect(ctx, key)
}

func (c loitering) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	c.loiters("RenewBatch")
	return c.client.RenewBatch(ctx, renewals)
}

// If a lease ends before the request, it proves nothing about a full store. The check is repeated.
func TestLeaseOverInFullStoreProvesNothing(t *testing.T) {
	for _, before := range []string{"RenewBatch", "Inspect"} {
		t.Run(before, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("")
				defer close(s.stop)
				h, once := s.harness(), new(sync.Once)
				h.Open = func(context.Context) (backend.Backend, error) { return loitering{newClient(s), before, once}, nil }
				passes(t, h, conformance.Options{Run: only("FullStoreKeepsLeases"), Timeout: time.Hour})
				once.Do(func() { t.Error("the machine never stood still") })
			})
		})
	}
}
