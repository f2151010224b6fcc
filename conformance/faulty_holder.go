package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

var faultyHolderChecks = []Check{
	{
		Name: "FaultyHolderKeepsQueue",
		Rule: "rules 5 and 9: a renewal, release or Break whose connection breaks, and whatever the client repeats of it, " +
			"drops no waiter, ends no other lease and, where Guarantees.FIFO, changes no order",
		Needs: []Need{needsLinked},
		run:   faultyHolderKeepsQueue,
	},
}

// faultyHolderKeepsQueue breaks the connection of a holder during a request, before or after the store gets it.
func faultyHolderKeepsQueue(t *trial) {
	const patience = 50 * time.Millisecond
	requests := append(t.renewals(), renewal{"Release",
		func(ctx context.Context, g *grant, _ time.Duration) error { return g.Release(ctx) }})
	renewals := len(requests) - 1
	if _, ok := t.a.(backend.Breaker); ok {
		requests = append(requests, renewal{"Break", func(ctx context.Context, g *grant, _ time.Duration) error {
			return g.client.(backend.Breaker).Break(ctx, g.key, g.owner)
		}})
	}
	t.inChunks(2*len(requests), 3, func(i int) {
		request, hold := requests[i/2], Direction(i%2)
		c, link := t.linked()
		t.usable(c)
		g := t.acquire(c, t.newKey(), t.long())
		l := t.newLine(g.key)
		l.after = "; the connection of the holder broke in its " + request.what
		first := l.join(t.b, t.long(), t.g.FIFO)
		for n := range 3 {
			l.join(t.client(n), t.long(), false)
		}
		link.Hold(hold)
		call := t.call(func() error { return request.renew(t.ctx, g, t.long()) })
		time.Sleep(patience)
		link.Cut()
		link.Heal()
		_ = call.ends(t, 2*recovery, request.what+" whose connection broke") // other checks test the result
		t.usable(c)
		if i/2 < renewals && !t.mayEndLeases() {
			for _, w := range l.waits {
				w.stillWaits(t, g, t.rule)
			}
		}
		_ = g.Release(t.ctx)
		bound := recovery + t.g.MaxLate
		if !t.g.FIFO {
			l.drained(bound)
			return
		}
		next := first.granted(t, bound, "after a release by a holder whose connection broke")
		time.Sleep(lateBy) // the client may repeat its release
		for _, w := range l.waits[1:] {
			if w.ended() && w.err == nil && w.grant.after.Before(next.after) { // the first may have stood still
				t.notInTime(t.rule, "a waiter had its turn before the first%s", l.after)
			}
			w.stillWaits(t, next, t.rule)
		}
		t.release(next)
		l.inOrder(bound)
	})
}
