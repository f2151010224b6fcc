package conformance

import (
	"time"

	"github.com/anylock/lock/backend"
)

var evictChecks = []Check{
	{
		Name:  "EvictedReleaseSparesNewHolder",
		Rule:  "rule 5: Release is refused by the store itself when another owner holds the key by now",
		Needs: []Need{needsEvict},
		run:   evictedReleaseSparesNewHolder,
	},
	{
		Name:  "EvictedRenewSparesNewHolder",
		Rule:  "rule 5: Renew is refused by the store itself when another owner holds the key by now",
		Needs: []Need{needsEvict},
		run:   evictedRenewSparesNewHolder,
	},
	{
		Name:  "EvictedRenewRevivesNothing",
		Rule:  "rule 5: Renew is ErrLost when the store has dropped the lease, and never creates it anew; Lost closes",
		Needs: []Need{needsEvict},
		run:   evictedRenewRevivesNothing,
	},
	{
		Name: "EvictedBatchSparesNewHolder",
		Rule: "rule 5: RenewBatch is refused by the store itself when it has dropped the lease or another owner holds the " +
			"key; Lost closes",
		Needs: []Need{needsEvict},
		run:   evictedBatchSparesNewHolder,
	},
	{
		Name: "EvictedKeyWakesWaiter",
		Rule: "rules 7 and 9: wake-ups are hints: a waiter gets a key that became free without a message, with a higher " +
			"token than the lease that was dropped",
		Needs: []Need{needsEvict},
		run:   evictedKeyWakesWaiter,
	},
	{
		Name:  "EvictedTokensIncrease",
		Rule:  "rule 7: tokens strictly increase per key, even after a lease was dropped",
		Needs: []Need{needsEvict, needsTokens},
		run:   evictedTokensIncrease,
	},
}

// evicted returns a lease of client a that the store has forgotten.
func (t *trial) evicted(ttl time.Duration) *grant {
	g := t.acquire(t.a, t.newKey(), ttl)
	if err := t.h.Evict(t.ctx, g.key); err != nil {
		t.fatalf("Evict: %v", err)
	}
	return g
}

func evictedReleaseSparesNewHolder(t *trial) {
	stale := t.evicted(t.long())
	fresh := t.acquire(t.b, stale.key, t.long())
	if h := t.inspectBy(t.a, fresh.key); h.Owner != fresh.owner && fresh.live(time.Now()) {
		t.breaksText(inspectRule, "Inspect by the client of a lease that the store had dropped: %q holds the key, want %q",
			h.Owner, fresh.owner)
	}
	t.wantLost("Release of a lease that the store had dropped", func() error { return stale.Release(t.ctx) })
	t.heldBy(fresh)
	t.isLost(stale.Release(t.ctx), "second Release of a lease that the store had dropped")
	t.refusedFor(t.a, fresh, t.short())
	t.describes(fresh, t.long())
	t.renew(fresh, t.long())
	t.release(fresh)
}

func evictedRenewSparesNewHolder(t *trial) {
	for _, ttl := range []time.Duration{t.short(), 2 * t.long()} {
		stale := t.evicted(t.long())
		fresh := t.acquire(t.b, stale.key, t.long())
		t.wantLost("Renew of a lease that the store had dropped", func() error { return stale.Renew(t.ctx, ttl) })
		t.describes(fresh, t.long())
		t.refusedFor(t.a, fresh, 2*t.short())
		t.heldBy(fresh)
		if !t.within(soon, stale.Lost()) {
			t.fatalf("Lost is open after Renew was ErrLost")
		}
		t.release(fresh)
	}
}

func evictedRenewRevivesNothing(t *trial) {
	g := t.evicted(t.long())
	for range 2 {
		t.wantLost("Renew of a lease that the store had dropped", func() error { return g.Renew(t.ctx, t.long()) })
	}
	if !t.within(soon, g.Lost()) {
		t.fatalf("Lost is open after Renew was ErrLost")
	}
	t.staysFree(g.key, "after Renew of a lease that the store had dropped")
	t.free(t.b, g.key, "after Renew of a lease that the store had dropped")
}

func evictedBatchSparesNewHolder(t *trial) {
	batcher := t.batcher()
	live, free, taken := t.acquire(t.a, t.newKey(), t.long()), t.evicted(t.long()), t.evicted(t.long())
	fresh := t.acquire(t.b, taken.key, t.long())
	begun := time.Now()
	errs := batcher.RenewBatch(t.ctx, toBatch(2*t.long(), free, live, taken))
	const size = 3
	if len(errs) != size {
		t.fatalf("a batch of %d leases has %d errors", size, len(errs))
	}
	t.answeredAll(errs, begun)
	t.isLost(errs[0], "batch renewal of a lease that the store had dropped")
	t.isLost(errs[2], "batch renewal of a lease whose key another owner holds")
	if errs[1] != nil {
		t.fatalf("batch renewal of a live lease next to lost ones: %v", errs[1])
	}
	for _, g := range []*grant{free, taken} {
		if !t.within(soon, g.Lost()) {
			t.fatalf("Lost is open after RenewBatch was ErrLost")
		}
	}
	t.staysFree(free.key, "after batch renewal of a lease that the store had dropped")
	t.describes(fresh, t.long())
	t.describes(live, 2*t.long())
	t.heldBy(fresh)
	t.heldBy(live)
}

func evictedKeyWakesWaiter(t *trial) {
	type modes struct{ holds, waits bool } // whether readers hold the key, and whether a reader waits
	cases := []modes{{}}
	if t.g.Shared {
		cases = append(cases, modes{holds: true}, modes{waits: true})
	}
	t.inChunks(len(cases), 4, func(i int) {
		key, ttl := t.newKey(), t.g.Round(4*t.short())
		holders := []*grant{t.getterOf(cases[i].holds)(t.a, key, ttl)}
		if cases[i].holds {
			holders = append(holders, t.read(t.b, key, ttl))
		}
		w := t.begin(t.ctx, t.b, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: 2 * t.long(), Wait: true,
			Shared: cases[i].waits}) // its lease outlives the dropped one's TTL, even if MaxTTL is short
		t.arrived(key, 1)
		for range 2 * len(holders) { // the Evict hook may drop one lease at a time
			if err := t.h.Evict(t.ctx, key); err != nil {
				t.fatalf("Evict: %v", err)
			}
			if h := t.inspect(key); h.Owner != holders[0].owner && (h.Shared == 0 || cases[i].waits) {
				break
			}
		}
		if !holders[0].live(time.Now()) {
			t.tooLate("the lease ended by itself before it was dropped: that of the waiter may have been")
		}
		// The waiter may rely on a timer for the holder's TTL that it saw last.
		next := w.granted(t, t.g.Round(ttl)+t.handOff(), "after the store dropped the lease")
		for _, g := range holders {
			t.wantLost("Release of a lease that the store had dropped", func() error { return g.Release(t.ctx) })
			if t.g.Fencing > backend.FencingNone && next.Token() <= g.Token() {
				t.breaks(7, "token %d was granted to a waiter after %d, of a lease that the store had dropped", next.Token(),
					g.Token())
			}
		}
		t.outlast(t.lastRefusal(holders[0].after, ttl)) // a timer of the dropped lease may fire then
		t.heldBy(next)
		t.release(next)
	})
}

func evictedTokensIncrease(t *trial) {
	s := &tokens{t: t}
	for i := range 4 {
		acquire := t.acquire
		if t.g.Shared && i%3 != 0 {
			acquire = t.read
		}
		g := acquire(t.a, t.key, t.long())
		s.next(g, "grant after the last lease was dropped")
		if err := t.h.Evict(t.ctx, t.key); err != nil {
			t.fatalf("Evict: %v", err)
		}
	}
}
