package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

var connectionChecks = []Check{
	{
		Name:  "CloseLeavesNoConnection",
		Rule:  "rule 10: Close leaks nothing: after it no connection is open, whatever the client was used for, but for leases that were live",
		Needs: []Need{needsLinked},
		run:   closeLeavesNoConnection,
	},
	{
		Name:  "EndedCallsLeaveNoConnection",
		Rule:  "rule 10: waits and attempts that have ended leave no connection behind, however many there were",
		Needs: []Need{needsLinked},
		run:   endedCallsLeaveNoConnection,
	},
	{
		Name: "WaitingAsksSeldom",
		Rule: "rule 10: waiters and leases cost little: a waiter sends no more than 100 requests a second, a held lease and a wait " +
			"that has ended next to none",
		Needs: []Need{needsLinked},
		run:   waitingAsksSeldom,
	},
}

// endedCalls are calls that a client makes of a busy key, and which end without a lease.
func (t *trial) endedCalls(c backend.Backend, link Link, busy *grant, n int) {
	t.together(n, func(int) {
		w := t.wait(c, busy.key, t.long())
		time.Sleep(t.h.Settle)
		w.cancel()
		if !t.within(soon, w.done) {
			t.breaks(4, "a cancelled Acquire has not returned within %v", soon)
		}
	})
	for range n {
		t.refused(c, busy)
	}
	link.Hold(FromStore)
	t.together(n, func(int) {
		const patience = 50 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.ctx, patience)
		defer cancel()
		_, _ = t.ask(ctx, c, t.newKey(), t.short(), false)
	})
	link.Heal()
}

func closeLeavesNoConnection(t *trial) {
	const clients = 2
	busy := t.acquire(t.a, t.key, t.long())
	t.together(clients, func(int) {
		c, link := t.linked()
		t.usable(c)
		t.endedCalls(c, link, busy, 3)
		t.usable(c)
		t.release(t.acquire(c, t.newKey(), t.long())) // a live one may keep its connection until its TTL is over
		w := t.wait(c, busy.key, t.long())
		time.Sleep(t.h.Settle)
		before := link.Connections()
		if before == 0 {
			t.tooLate("a client has no connection that goes through its link")
		}
		t.closes(c)
		w.fails(t, "Acquire waiting at Close")
		if !t.poll(soon, func() bool { return link.Connections() == 0 }) {
			t.breaks(10, "%d connections are open %v after Close, %d before", link.Connections(), soon, before)
		}
	})
}

func endedCallsLeaveNoConnection(t *trial) {
	n := min(8, t.h.Many/2)
	busy := t.acquire(t.a, t.key, t.long())
	c, link := t.linked()
	t.usable(c)
	// A pool grows until it is as large as it gets; what leaks, grows every time.
	const rounds = 6
	t.endedCalls(c, link, busy, n)
	t.usable(c)
	first := link.Connections()
	for range rounds {
		before := link.Connections()
		t.endedCalls(c, link, busy, n)
		t.usable(c)
		if t.poll(time.Second, func() bool { return link.Connections() <= before+n/2 }) {
			return
		}
	}
	t.breaks(10, "%d waits, %d refused and %d abandoned attempts, %d times, leave %d connections more than the first", n, n, n, rounds,
		link.Connections()-first)
}

func waitingAsksSeldom(t *trial) {
	const (
		a    = time.Second
		most = 100 // requests a second
	)
	waiters := min(4, t.h.Many/2)
	busy := t.acquire(t.a, t.key, t.long())
	c, link := t.linked()
	t.usable(c)
	// What an attempt sends, with what the client may send meanwhile for itself.
	before := link.Came(ToStore)
	t.refused(c, busy)
	each := max(link.Came(ToStore)-before, 1)
	sent := func() float64 { // requests a second
		before, begun := link.Came(ToStore), time.Now()
		time.Sleep(a / 2)
		return float64(link.Came(ToStore)-before) / float64(each) / time.Since(begun).Seconds()
	}
	held := t.acquire(c, t.newKey(), t.long())
	time.Sleep(t.h.Settle / 4)
	if n := sent(); n > most {
		t.breaks(10, "a client that holds a lease and does nothing sends as much as %.0f attempts a second", n)
	}
	var waits []*waiting
	for range waiters {
		waits = append(waits, t.wait(c, busy.key, t.long()))
	}
	t.arrived(busy.key, waiters)
	if n := sent() / float64(waiters); n > most {
		t.breaks(10, "each of %d waiters sends as much as %.0f attempts a second", waiters, n)
	}
	for _, w := range waits {
		w.cancelAndFail(t)
	}
	time.Sleep(t.h.Settle) // clean-ups
	if n := sent(); n > most {
		t.breaks(10, "%d waits were cancelled, and their client sends as much as %.0f attempts a second", waiters, n)
	}
	t.release(held)
	t.release(busy)
}
