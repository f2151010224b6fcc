package conformance

import (
	"fmt"

	"github.com/anylock/lock/backend"
)

func resumeIsForTheHolder(t *trial) {
	t.inChunks(5, 2, func(i int) {
		switch i {
		case 0:
			t.eachPair(func(p likePair) {
				g := t.acquireAs(t.a, t.newKey(), p.one)
				what := fmt.Sprintf("Resume by owner %s of a key that %s holds", show(p.two), show(p.one))
				t.notResumed(t.b, backend.Request{Key: g.key, Owner: p.two, TTL: t.long()}, what)
				t.belongsTo(g, what)
				t.release(g)
			})
		case 1:
			t.othersResumeNothing()
		case 2:
			t.resumesNoEndedLease(func(g *grant) { t.release(g) }, "released")
		case 3:
			t.resumesNoEndedLease(t.expire, "expired")
		case 4:
			t.resumesTurn()
		}
	})
}

// resumesTurn calls Resume for a waiter that cannot respond, when it has its turn. Either the store has granted the key
// to the waiter, and Resume returns that lease, or it only keeps the key for the waiter.
func (t *trial) resumesTurn() {
	if t.h.Linked == nil {
		return
	}
	c, link := t.linked()
	t.usable(c)
	g := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(c, g.key, t.long())
	t.confirmQueued(g.key, 1)
	link.Hold(ToStore)
	link.Hold(FromStore)
	t.release(g)
	resumed, err := t.resumeBy(t.b, &grant{key: g.key, owner: w.owner}, t.long())
	if err != nil {
		t.isLost(err, "Resume by a waiter that has its turn, and does not know yet")
		return
	}
	t.tokenAbove(resumed, g, "Resume by a waiter that has its turn, and does not know yet")
	t.heldBy(resumed)
	t.release(resumed)
}

// othersResumeNothing calls Resume for owners that do not hold the key, and checks that the holder's lease still ends
// in time.
func (t *trial) othersResumeNothing() {
	g := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(t.a, g.key, t.long())
	t.arrived(g.key, 1)
	other := t.acquire(t.a, t.newKey(), t.long())
	free := t.newKey()
	for _, b := range []backend.Backend{t.a, t.b} {
		for what, r := range map[string]backend.Request{
			"Resume by an owner that nobody is":             {Key: g.key, Owner: backend.NewOwner()},
			"Resume by an owner that waits":                 {Key: g.key, Owner: w.owner},
			"Resume by an owner that holds another key":     {Key: g.key, Owner: other.owner},
			"Resume of a free key":                          {Key: free, Owner: g.owner},
			"Resume by an owner in front of another's name": {Key: g.key, Owner: g.owner[:len(g.owner)-1]},
		} {
			r.TTL, r.Wait = t.long(), b == t.b // Resume ignores Wait
			t.notResumed(b, r, what)
		}
	}
	w.stillWaits(t, g, t.rule)
	t.heldBy(g)
	t.heldBy(other)
	t.release(g)
	t.release(w.granted(t, t.handOff(), "after the release of a lease that others tried to resume"))
	t.release(other)
	t.mustBeFree(t.b, free, "after Resume of a free key")

	short := t.acquire(t.a, t.newKey(), t.short())
	t.notResumed(t.b, backend.Request{Key: short.key, Owner: backend.NewOwner(), TTL: t.long()},
		"Resume by an owner that nobody is")
	t.outlast(t.lastRefusal(short.after, short.ttl))
	t.mustBeFree(t.b, short.key, "after the TTL of a lease that another owner tried to resume")
}

// resumesNoEndedLease calls Resume for a lease that has ended, while its key is free and while another owner holds it.
func (t *trial) resumesNoEndedLease(end func(g *grant), how string) {
	g := t.acquire(t.a, t.newKey(), t.short())
	end(g)
	stale := backend.Request{Key: g.key, Owner: g.owner, TTL: t.long()}
	what := "Resume of a lease that was " + how
	for _, b := range []backend.Backend{t.a, t.b} {
		t.notResumed(b, stale, what)
	}
	next := t.acquire(t.a, g.key, t.long())
	for _, b := range []backend.Backend{t.a, t.b} {
		t.notResumed(b, stale, what+", and whose key another owner holds")
	}
	t.describes(next, t.long())
	t.heldBy(next)
	t.release(next)
}
