package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

var connectionChecks = []Check{
	{
		Name: "CloseLeavesNoConnection",
		Rule: "rule 10: Close leaks nothing: after it no connection is open, whatever the client was used for; where a " +
			"lease was live or a request " +
			"under way, after its TTL",
		Needs: []Need{needsLinked},
		run:   closeLeavesNoConnection,
	},
	{
		Name: "EndedCallsLeaveNoConnection",
		Rule: "rule 10: waits, attempts, renewals and calls of Inspect that have ended, answered or not, and lists and " +
			"Breaks, leave no connection and no goroutine behind, however many",
		Needs: []Need{needsLinked},
		run:   endedCallsLeaveNoConnection,
	},
	{
		Name: "WaitingPollsSeldom",
		Rule: "rule 10: waiters and leases cost little: a waiter sends no more than 100 requests a second, a held " +
			"lease and a wait " +
			"that has ended next to none",
		Needs: []Need{needsLinked},
		run:   waitingPollsSeldom,
	},
}

// endedCalls makes calls that end without a lease, n of each kind: cancelled waits for a busy key, refused attempts,
// List, Break, and attempts, waits, renewals and calls of Inspect that are abandoned because no reply arrives.
func (t *trial) endedCalls(c backend.Backend, link Link, busy *grant, n int) {
	t.together(n, func(int) {
		w := t.wait(c, busy.key, t.long())
		time.Sleep(t.h.ArrivalDelay)
		w.cancel()
		if !t.within(soon, w.done) {
			t.breaks(4, "a cancelled Acquire has not returned within %v", soon)
		}
	})
	for range n {
		t.refused(c, busy)
	}
	lister, lists := c.(backend.Lister)
	breaker, breaks := c.(backend.Breaker)
	for range n { // other checks test the replies
		if lists {
			_, _ = lister.List(t.ctx, busy.key)
		}
		if breaks {
			_ = breaker.Break(t.ctx, busy.key, backend.NewOwner())
		}
	}
	var held []*grant
	for range n {
		held = append(held, t.acquire(c, t.newKey(), t.long()))
	}
	calls := []func(ctx context.Context, i int){
		func(ctx context.Context, _ int) { _, _ = t.requestKey(ctx, c, t.newKey(), t.short(), false) },
		func(ctx context.Context, _ int) { _, _ = t.requestKey(ctx, c, busy.key, t.short(), true) },
		func(ctx context.Context, _ int) { _, _ = c.Inspect(ctx, busy.key) },
	}
	for _, way := range t.renewals() { // one after the other, because a batch may skip a lease that is being renewed
		calls = append(calls, func(ctx context.Context, i int) { _ = way.renew(ctx, held[i], t.long()) })
		link.Hold(FromStore)
		t.together(n*len(calls), func(i int) {
			const patience = 50 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.ctx, patience)
			defer cancel()
			calls[i/n](ctx, i%n)
		})
		link.Heal()
		t.usable(c)
		calls = nil
	}
	for _, g := range held {
		_ = g.Release(t.ctx)
	}
}

func closeLeavesNoConnection(t *trial) {
	busy := t.acquire(t.a, t.key, t.long())
	waits := func(c backend.Backend, link Link) {
		t.endedCalls(c, link, busy, 3)
		t.usable(c)
		t.release(t.acquire(c, t.newKey(), t.long()))
		w := t.wait(c, busy.key, t.long())
		time.Sleep(t.h.ArrivalDelay)
		t.closesLinked(c, link, 0)
		w.fails(t, "Acquire waiting at Close")
	}
	ways := []func(c backend.Backend, link Link){
		waits, waits,
		func(c backend.Backend, link Link) {
			t.acquire(c, t.newKey(), t.short())
			t.closesLinked(c, link, t.short())
		},
		func(c backend.Backend, link Link) {
			const patience = 100 * time.Millisecond
			link.Hold(FromStore)
			attempt := t.call(func() error { _, err := t.requestKey(t.ctx, c, t.newKey(), t.short(), false); return err })
			time.Sleep(patience)
			t.spawn(func() { // Close may wait for requests that are under way
				t.within(soon/4, attempt.done)
				link.Heal()
			})
			t.closesLinked(c, link, t.short())
			attempt.ends(t, soon, "an Acquire that was under way at Close")
		},
	}
	t.together(len(ways), func(i int) {
		c, link := t.linked()
		t.usable(c)
		ways[i](c, link)
	})
}

// closesLinked closes c, and fails unless c has no connection soon after ttl.
func (t *trial) closesLinked(c backend.Backend, link Link, ttl time.Duration) {
	before := link.Connections()
	if before == 0 {
		t.tooLate("a client has no connection that goes through its link")
	}
	t.closes(c)
	last := soon
	if ttl > 0 {
		last += time.Until(t.lastRefusal(time.Now(), ttl))
	}
	if !t.poll(last, func() bool { return link.Connections() == 0 }) {
		t.breaks(10, "%d connections are open %v after Close, %d before", link.Connections(), last.Round(tick), before)
	}
}

func endedCallsLeaveNoConnection(t *trial) {
	n := min(8, t.h.Many/2)
	busy := t.acquire(t.a, t.key, t.long())
	c, link := t.linked()
	t.usable(c)
	// A pool stops growing when it has reached its limit. A leak grows in every round.
	const (
		rounds    = 6
		cleanedUp = 1600 * time.Millisecond // by then, cleanups have usually ended: a second without a trace of the owner
	)
	t.endedCalls(c, link, busy, n)
	t.usable(c)
	time.Sleep(cleanedUp)
	first, running := link.Connections(), goroutines(t.label)
	for range rounds {
		before := link.Connections()
		t.endedCalls(c, link, busy, n)
		t.usable(c)
		if t.poll(time.Second, func() bool { return link.Connections() <= before+n/2 }) {
			t.waitForGoroutines(running+n/2, fmt.Sprintf("%d waits, %d refused attempts, and %d abandoned calls of each kind",
				n, n, n))
			return
		}
	}
	t.breaks(10, "%d waits, %d refused attempts, and %d abandoned calls of each kind, %d times, leave %d connections "+
		"more than the first", n, n, n, rounds, link.Connections()-first)
}

func waitingPollsSeldom(t *trial) {
	const (
		a    = time.Second
		most = 100 // requests a second
	)
	waiters := min(4, t.h.Many/2)
	c, link := t.linked()
	t.usable(c)
	// The number of bytes of an attempt, including bytes that the client sends at the same time for other reasons.
	before := link.Arrived(ToStore)
	t.refused(c, t.acquire(t.a, t.newKey(), t.long()))
	each := max(link.Arrived(ToStore)-before, 1)
	sent := func() float64 { // requests a second
		before, begun := link.Arrived(ToStore), time.Now()
		time.Sleep(a / 2)
		return float64(link.Arrived(ToStore)-before) / float64(each) / time.Since(begun).Seconds()
	}
	held := []*grant{t.acquire(c, t.newKey(), t.long())}
	if t.h.Many > 2 { // the client needs room for its waiters too
		held = append(held, t.getterOf(t.g.Shared)(c, t.newKey(), t.long()))
	}
	time.Sleep(t.h.ArrivalDelay / 4)
	if n := sent(); n > most {
		t.breaks(10, "a client that holds leases and does nothing sends as much as %.0f attempts a second", n)
	}
	// The holder renews its lease, which then outlives the expiry that the waiters saw when they arrived.
	busy := t.acquire(t.a, t.key, t.g.Round(t.awaited()+a))
	first := busy.Deadline()
	var waits []*waiting
	for i := range waiters {
		waits = append(waits, t.begin(t.ctx, c, backend.Request{Key: busy.key, Owner: backend.NewOwner(), TTL: t.long(),
			Wait: true, Shared: t.g.Shared && i%2 == 1}))
	}
	t.arrived(busy.key, waiters)
	t.renew(busy, t.longest()) // a waiter's timer must not overflow
	if n := sent() / float64(waiters); n > most {
		t.breaks(10, "each of %d waiters sends as much as %.0f attempts a second", waiters, n)
	}
	time.Sleep(time.Until(later(first, time.Now().Add(a/2))) + t.h.ArrivalDelay/4)
	if n := sent() / float64(waiters); n > most {
		t.breaks(10, "each of %d waiters sends as much as %.0f attempts a second once the holder's TTL is over, and "+
			"it has renewed", waiters, n)
	}
	for _, g := range held {
		t.release(g)
	}
	link.Cut()
	t.usable(c)
	t.queuesAgain(busy.key, waiters)
	time.Sleep(a / 2) // a client may send more while it connects
	if n := sent() / float64(waiters); n > most {
		t.breaks(10, "each of %d waiters sends as much as %.0f attempts a second, after a cut", waiters, n)
	}
	for _, w := range waits {
		w.cancelAndFail(t)
	}
	time.Sleep(t.h.ArrivalDelay) // wait for cleanups
	if n := sent(); n > most {
		t.breaks(10, "%d waits were cancelled, and their client sends as much as %.0f attempts a second", waiters, n)
	}
	t.release(busy)
}
