package conformance

import (
	"time"

	"github.com/anylock/lock/backend"
)

var removedChecks = []Check{
	{
		Name: "RemovedHolderIsNotified",
		Rule: "rule 6: where Guarantees.ReportsLoss says so, a holder whose lease somebody else removes is " +
			"notified soon, by " +
			"Lost and OnLost, however it got the lease and whether it renews or not, of whatever key, by whichever client " +
			"Break was called, and however many leases are removed at once; holders of other leases are not",
		Needs: []Need{needsReportsLoss},
		run:   removedHolderIsNotified,
	},
}

func removedHolderIsNotified(t *trial) {
	removals := make(map[string]func(g *grant) error)
	if b, ok := t.b.(backend.Breaker); ok {
		removals["by Break"] = func(g *grant) error { return t.breaksLease(b, g) }
		own := t.a.(backend.Breaker) // all holders are of this client
		removals["by Break of its own client"] = func(g *grant) error { return t.breaksLease(own, g) }
	}
	if t.h.Evict != nil {
		removals["by Harness.Evict"] = func(g *grant) error { return t.h.Evict(t.ctx, g.key) }
	}
	if len(removals) == 0 {
		t.lacks(needsEvict, "nothing removes leases: the store is no Breaker, and the harness has no Evict hook")
	}
	type way struct {
		of   string
		hold func() *grant
	}
	ways := []way{
		{"a lease just granted", func() *grant { return t.acquire(t.a, t.newKey(), t.long()) }},
		{"a lease held for a while", func() *grant { return t.heldAwhile() }},
		{"a renewed lease", func() *grant {
			g := t.heldAwhile()
			t.renew(g, 2*t.long())
			return g
		}},
		{"a lease that was waited for", func() *grant { return t.waitedFor(t.long()) }},
		{"the second lease of a key and client", func() *grant {
			first := t.acquire(t.a, t.newKey(), t.long())
			t.release(first)
			return t.acquire(t.a, first.key, t.long())
		}},
		{"a lease of a key of odd bytes", func() *grant {
			return t.acquire(t.a, t.newKey()+"/ \t\r\n\x00\xff%41{*}\\'\"", t.long())
		}},
	}
	if t.g.Shared {
		ways = append(ways, way{"a reader's lease", func() *grant { return t.read(t.a, t.newKey(), t.long()) }},
			way{"a reader's lease that was waited for", func() *grant { return t.waitedToRead(t.long()) }})
	}
	if _, ok := t.a.(backend.BatchRenewer); ok {
		ways = append(ways, way{"a lease renewed in a batch", func() *grant {
			g := t.heldAwhile()
			t.renewInBatch(g, 2*t.long())
			return g
		}})
	}
	if _, ok := t.a.(backend.Resumer); ok {
		ways = append(ways, way{"a resumed lease", func() *grant {
			return t.resume(t.a, t.acquire(t.b, t.newKey(), t.long()), t.long())
		}})
	}
	if b, ok := t.b.(backend.Breaker); ok {
		t.sparesNext(b)
		t.sparesKeysAlike(b)
		t.removesMany(b)
		if t.g.Shared {
			t.removesReaders(b)
		}
	}
	if t.g.Shared && t.h.Evict != nil {
		t.evictsReaders()
	}
	for how, remove := range removals {
		t.inChunks(len(ways), 2, func(i int) {
			other, g := t.acquire(t.a, t.newKey(), t.long()), ways[i].hold()
			notified := func(string) {}
			if _, ok := g.Lease.(backend.LossNotifier); ok {
				notified = t.countCallbacks(g).all
			}
			if err := remove(g); err != nil {
				t.fatalf("removal of %s %s: %v", ways[i].of, how, err)
			}
			removed := time.Now()
			if !t.within(soon, g.Lost()) {
				t.fatalf("Lost is open %v after %s was removed %s, and nobody renewed it", time.Since(removed), ways[i].of, how)
			}
			if !g.live(time.Now()) {
				t.tooLate("a lease ended by itself before its holder could be notified")
			}
			notified("after " + ways[i].of + " was removed " + how)
			t.isLost(g.Release(t.ctx), "Release of a lease that was removed")
			t.heldBy(other)
			t.release(other)
			t.free(t.b, g.key, "after the holder was notified of the removal")
		})
	}
}

// sparesNext breaks a lease of a client. The client's next lease of the key must survive.
func (t *trial) sparesNext(breaker backend.Breaker) {
	g := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(t.a, g.key, t.long())
	t.arrived(g.key, 1)
	t.mustBreak(breaker, g)
	next := w.granted(t, t.handOff(), "after Break")
	if !t.within(soon, g.Lost()) {
		t.fatalf("Lost is open %v after Break of a lease whose client waited for the next one", soon)
	}
	time.Sleep(lateBy)
	if next.gone() && next.live(time.Now()) {
		t.breaks(6, "Break of one lease has closed Lost of the next one of its key and client")
	}
	t.heldBy(next)
	t.release(next)
}

// heldAwhile returns a lease that was granted a while ago.
func (t *trial) heldAwhile() *grant {
	const awhile = 300 * time.Millisecond
	g := t.acquire(t.a, t.newKey(), t.long())
	time.Sleep(awhile)
	return g
}
