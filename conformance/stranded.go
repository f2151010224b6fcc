package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

var strandedChecks = []Check{
	{
		Name: "DeadConnectionIsReplaced",
		Rule: "rules 1 and 9: a client whose connections are dead, without an end, while new ones work, connects again: it " +
			"serves calls, its " +
			"waiters get released keys, and its leases live. Where Guarantees.EarlyLoss mentions connections or sessions, a " +
			"waiter may need " +
			"the end of its dead connection",
		Needs: []Need{needsLinked},
		run:   deadConnectionIsReplaced,
	},
	{
		Name: "StrandedRequestChangesNothing",
		Rule: "rules 4 and 5: a renewal or release that reaches the store by a dead connection, seconds after the lease " +
			"has ended and its client has connected again, revives nothing and does not touch the next holder; an attempt " +
			"that was sent again neither takes the key again nor shortens its lease; one whose answer is stuck is cleaned up",
		Needs: []Need{needsLinked},
		// If a client cannot have leases for more, the attempts are made one after the other.
		lasts: 12 * recovery,
		run:   strandedRequestChangesNothing,
	},
}

// strandable opens a client behind a link that can strand its connections. end closes both.
func (t *trial) strandable() (c backend.Backend, s StrandingLink, end func()) {
	c, link, end := t.linkedUntil()
	s, ok := link.(StrandingLink)
	if !ok {
		t.skipf("the link cannot leave connections dead (StrandingLink)")
	}
	t.usable(c)
	return c, s, end
}

func deadConnectionIsReplaced(t *trial) {
	c, link, _ := t.strandable()
	held := []*grant{t.acquire(c, t.newKey(), t.long()), t.grantedAfterWait(c)}
	busy := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(c, busy.key, t.long())
	t.confirmQueued(busy.key, 1)
	link.Strand()
	t.release(busy)
	t.usable(c)
	// A waiter that depends on its connection may notice the fault only by TCP's probes, which the link's kernel answers.
	if t.mayEndLeases() {
		link.Heal()
	}
	if most := recovery + t.g.MaxLate; !t.within(most, w.done) {
		t.fatalf("a waiter whose connection is dead has not been granted the released key %v after its client "+
			"connected again", most)
	}
	next := w.granted(t, 0, "after release")
	for _, g := range held {
		t.outlivedOutage(g, "whose connections were dead")
	}
	t.refused(t.b, next)
	t.release(next)
	t.becomesFree(t.b, next.key, recovery, "after the release by a waiter whose connection was dead")
}

func strandedRequestChangesNothing(t *trial) {
	const late = 3 * time.Second // after the request was made
	requests := append(t.renewals(), renewal{"Release",
		func(ctx context.Context, g *grant, _ time.Duration) error { return g.Release(ctx) }})
	modes := t.modes()
	t.inChunks(2*len(requests)*len(modes), 2, func(i int) {
		// held: the next holder has the key when the request arrives
		request, held, mode := requests[i/2%len(requests)], i%2 == 1, modes[i/2/len(requests)]
		c, link, end := t.strandable()
		defer end()
		g := t.getterOf(mode)(c, t.newKey(), t.short())
		link.Hold(ToStore)
		delivery := time.Now().Add(late)
		ctx, cancel := context.WithDeadline(t.ctx, g.Deadline())
		defer cancel()
		if err := request.renew(ctx, g, t.long()); err == nil {
			t.fatalf("%s whose request is on its way succeeded", request.what)
		}
		link.Strand()
		t.usable(c)
		t.outlast(t.lastRefusal(g.after, g.ttl))
		var next *grant
		if held {
			next = t.acquire(t.b, g.key, t.long())
		}
		time.Sleep(time.Until(delivery))
		link.DeliverStranded()
		time.Sleep(lateBy)
		when := "after a " + request.what + " that reached the store seconds after the lease had ended"
		if held {
			t.heldBy(next)
			t.describes(next, t.long())
			t.release(next)
		}
		t.free(t.a, g.key, when)
	})
	t.strandedAttempts()
	t.strandedTurns()
	t.strandedAnswers()
}
