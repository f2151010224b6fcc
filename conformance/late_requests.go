package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var lateRequestChecks = []Check{
	{
		Name: "LateRenewalRevivesNothing",
		Rule: "rule 5: a renewal, alone or in a batch, that reaches the store after the lease has ended is ErrLost: a free " +
			"key stays free, and the " +
			"next holder keeps its lease",
		Needs: []Need{needsLinked},
		run:   lateRenewalRevivesNothing,
	},
	{
		Name: "LateRequestSparesOwnClient",
		Rule: "rule 5: a renewal or release that reaches the store when another lease of the same client has the key " +
			"does not touch it",
		Needs: []Need{needsLinked},
		run:   lateRequestSparesOwnClient,
	},
	{
		Name: "LongLateAcquireLeavesNothing",
		Rule: "rule 4: the store cleans up after an Acquire that ended without an answer until its owner is proven absent, " +
			"even if nothing gets through " +
			"for seconds: neither a lease nor a place in the queue stays behind",
		Needs: []Need{needsLinked},
		run:   longLateAcquireLeavesNothing,
	},
}

func lateRenewalRevivesNothing(t *trial) {
	const cases = 2 // the key is free, or has a new holder
	t.eachRenewal(cases, func(i int, way renewal) {
		c, link := t.linked()
		t.usable(c)
		g := t.acquire(c, t.newKey(), t.short())
		link.Hold(ToStore)
		late := t.call(func() error { return way.renew(t.ctx, g, 2*t.long()) })
		t.outlast(t.lastRefusal(g.after, g.ttl))
		var next *grant
		if i == 1 {
			next = t.acquire(t.b, g.key, t.long())
		}
		link.Heal()
		t.isLost(late.ends(t, 2*recovery, way.what+" that came late to the store"), way.what+" that came late to the store")
		t.usable(c) // these requests queue behind the renewal
		time.Sleep(lateBy)
		if next == nil {
			t.free(t.b, g.key, "after a "+way.what+" that came to the store when the lease had ended")
			return
		}
		t.refused(t.a, next)
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
		t.free(t.a, g.key, "after the release by the next holder")
	})
}

func lateRequestSparesOwnClient(t *trial) {
	requests := append(t.renewals(), renewal{"Release",
		func(ctx context.Context, g *grant, _ time.Duration) error { return g.Release(ctx) }})
	type pair struct {
		first func(b backend.Backend, key string, ttl time.Duration) *grant
		next  func(b backend.Backend, key string, ttl time.Duration) *waiting
	}
	pairs := []pair{{t.acquire, t.wait}}
	if t.g.Shared {
		pairs = append(pairs, pair{t.read, t.wait}, pair{t.acquire, t.waitToRead})
	}
	t.inChunks(len(pairs)*len(requests), 2, func(i int) {
		pair := pairs[i/len(requests)]
		i %= len(requests)
		c, link := t.linked()
		t.usable(c)
		g := pair.first(c, t.newKey(), t.awaited())
		w := pair.next(c, g.key, t.long())
		t.confirmQueued(g.key, 1)
		if !g.live(time.Now()) {
			t.tooLate("a lease ended before its client's next request was in the queue")
		}
		link.Hold(ToStore)
		late := t.call(func() error { return requests[i].renew(t.ctx, g, 2*t.long()) })
		t.outlast(t.lastRefusal(g.after, g.ttl))
		link.Heal()
		if err := late.ends(t, 2*recovery, requests[i].what+" that came late to the store"); err == nil {
			t.fatalf("%s of a live lease that came to the store after its expiry succeeded", requests[i].what)
		}
		next := w.granted(t, recovery+t.g.MaxLate, "after the expiry of another lease of the same client")
		t.usable(c)
		t.refusedFor(t.a, next, lateBy)
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
		t.becomesFree(t.b, g.key, recovery, "after release")
	})
}

func longLateAcquireLeavesNothing(t *trial) {
	const outage = 6 * time.Second // a client's own limit for one cleanup may be shorter
	cases := 2
	if t.g.Shared {
		cases = 4
	}
	t.inChunks(cases, 2, func(i int) {
		wait, shared := i%2 == 1, i > 1
		c, link := t.linked()
		t.usable(c)
		busy := t.acquire(t.a, t.newKey(), t.long())
		queued := t.begin(t.ctx, c, backend.Request{Key: busy.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
			Shared: shared})
		t.confirmQueued(busy.key, 1)
		stale := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(), Wait: wait, Shared: shared}
		link.Hold(ToStore)
		end := time.Now().Add(outage)
		t.unanswered(c, stale)
		queued.cancel()
		if err := queued.fails(t, "Acquire that was cancelled while its path was silent"); !errors.Is(err, context.Canceled) {
			t.breaks(4, "Acquire that was cancelled while its path was silent: %v, want context.Canceled", err)
		}
		time.Sleep(time.Until(end))
		link.Heal()
		t.usable(c)
		t.becomesFree(t.b, stale.Key, recovery, "after an Acquire that reached the store seconds after its context had ended")
		t.release(busy)
		t.becomesFree(t.b, busy.key, recovery, "after the release of a key whose waiter was cancelled while its "+
			"path was silent")
	})
}
