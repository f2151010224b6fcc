package conformance

import (
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var fullChecks = []Check{
	{
		Name: "FullStoreKeepsLeases",
		Rule: "rules 3 and 6: a full store still renews and releases what it has granted, and grants nothing that " +
			"it cannot renew",
		Needs: []Need{needsFill},
		alone: true,
		run:   fullStoreKeepsLeases,
	},
}

// fill makes the store full until empty is called, or the trial ends.
func (t *trial) fill() (empty func()) {
	empty = sync.OnceFunc(t.h.Fill())
	t.endsFault(empty)
	return empty
}

func fullStoreKeepsLeases(t *trial) {
	ttl := t.g.Round(4 * t.short())
	one, batched, released := t.acquire(t.a, t.key, ttl), t.acquire(t.a, t.newKey(), ttl), t.acquire(t.b, t.newKey(), ttl)
	var readers []*grant
	if t.g.Shared {
		key := t.newKey()
		readers = []*grant{t.read(t.a, key, ttl), t.read(t.b, key, ttl)}
		t.release(t.read(t.a, key, ttl))
	}
	end := batched.Deadline()
	empty := t.fill()
	t.release(released)
	inBatch := func(g *grant) {
		if _, ok := g.client.(backend.BatchRenewer); ok {
			t.renewInBatch(g, ttl)
		} else {
			t.renew(g, ttl)
		}
	}
	keep := func() {
		t.renew(one, ttl)
		inBatch(batched)
		for i, g := range readers {
			if i == 0 {
				t.renew(g, ttl)
			} else {
				inBatch(g)
			}
		}
	}
	for time.Now().Before(end) {
		keep()
		time.Sleep(ttl / 8)
	}
	keep() // the leases have outlived the TTL of their grant
	again := t.acquireFull(t.b, t.newKey(), ttl)
	for _, g := range again {
		t.renew(g, ttl)
		t.describes(g, ttl)
		t.release(g)
	}
	if len(readers) > 0 {
		t.holdersAre(readers, "of a full store")
	}
	for _, g := range append(readers, one, batched) {
		if !g.shared {
			t.describes(g, ttl)
		}
		t.release(g)
	}
	empty()
	for _, g := range append(readers, one, batched, released) {
		t.becomesFreeAfterOutage(t.b, g.key)
	}
}

// acquireFull requests leases from a full store. A request may fail, but not with ErrHeld.
func (t *trial) acquireFull(b backend.Backend, key string, ttl time.Duration) (granted []*grant) {
	for range 3 {
		begun := time.Now()
		g, err := t.requestKey(t.ctx, b, key, ttl, false)
		switch {
		case err == nil:
			granted, key = append(granted, g), t.newKey()
		case errors.Is(err, backend.ErrHeld):
			t.fatalf("Acquire of a free key in a full store: %v", err)
		default:
			t.lateOnTimeout(err, begun)
		}
	}
	return granted
}
