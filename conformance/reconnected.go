package conformance

import (
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

var reconnectedChecks = []Check{
	{
		Name: "ReconnectedWaiterSparesOthers",
		Rule: "rule 9: where Guarantees.FIFO, a waiter whose connection breaks may lose its place, and then queues again " +
			"at the end: it overtakes " +
			"nobody, the others keep their order, and its end touches no place but its own",
		Needs: []Need{needsFIFO, needsLinked},
		run:   reconnectedWaiterSparesOthers,
	},
	{
		Name: "ReconnectedWaiterIsWoken",
		Rule: "Guarantees.Wake: where it is WakePush, the waiters of a client that has reconnected are notified of " +
			"releases, those that waited before " +
			"and those that came later",
		Needs: []Need{needsPush, needsLinked},
		run:   reconnectedWaiterIsWoken,
	},
	{
		Name: "ReconnectedHolderIsNotified",
		Rule: "rule 6: where Guarantees.ReportsLoss says so, a holder whose connection broke learns of the removal of its " +
			"lease soon after its client has " +
			"reconnected, whether the lease was removed before or after that",
		Needs: []Need{needsReportsLoss, needsLinked},
		run:   reconnectedHolderIsNotified,
	},
}

// reconnects are ways to break the connections of a client, which can then connect again.
var reconnects = []func(Link){
	Link.Cut,
	func(l Link) {
		l.Refuse()
		time.Sleep(300 * time.Millisecond)
		l.Heal()
	},
}

// queuesAgain waits until n waiters are in the store's queue for key, after a cut.
func (t *trial) queuesAgain(key string, n int) {
	if !t.poll(recovery, func() bool { h := t.inspect(key); return h.Waiters < 0 || h.Waiters >= n }) {
		t.notInTime(t.rule, "Inspect counts %d waiters %v after the connections of some broke, want %d",
			t.inspect(key).Waiters, recovery, n)
	}
	time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
}

func reconnectedWaiterSparesOthers(t *trial) {
	t.inChunks(len(reconnects), 4, func(i int) {
		c, link := t.linked()
		t.usable(c)
		g := t.acquire(t.a, t.newKey(), t.long())
		l := t.newLine(g.key)
		for i := range 7 {
			if i%2 == 1 {
				l.join(c, t.short(), false)
			} else {
				l.join(t.client(i/2), t.long(), false)
			}
		}
		time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
		for range 1 + i%2 { // an order that is turned round twice is the old one
			reconnects[i](link)
			t.usable(c)
			t.queuesAgain(g.key, len(l.waits))
		}
		l.waits[3].cancelAndFail(t)
		t.queueAtMostOf(g.key, l.waiting())
		t.release(g)
		l.drained(2*t.handOff() + recovery)
		l.sparesOthers(c)
	})
}

// sparesOthers fails if a waiter had its turn after a waiter that arrived later. Waiters of client are exempt, because
// they may have queued again.
func (l *line) sparesOthers(client backend.Backend) {
	arrival := func(owner string) int {
		return slices.IndexFunc(l.waits, func(w *waiting) bool { return w.owner == owner })
	}
	for i, later := range l.turns {
		for _, owner := range l.turns[i+1:] {
			if n := arrival(owner); n < arrival(later) && l.waits[n].client != client {
				l.t.fatalf("waiter %d had its turn before waiter %d, whose connections never broke", arrival(later)+1, n+1)
			}
		}
	}
}

// reconnectedWaiterIsWoken measures like pushIsPrompt, with waiters of clients whose connections broke a while ago.
func reconnectedWaiterIsWoken(t *trial) {
	const keys, chances = 5, 3
	defer t.watchStore()()
	for chance := 1; ; chance++ {
		old, recent := &pushedWaiters{who: "a waiter that was there before"}, &pushedWaiters{who: "a waiter that came later"}
		other := &pushedWaiters{who: "a waiter for another key of the same client"}
		again := &pushedWaiters{who: "a waiter whose connections broke twice"}
		t.inChunks(2*keys, 3, func(i int) {
			if i < keys {
				t.wakesAfterCut(1, reconnects[i%len(reconnects)], old, other, recent)
			} else {
				t.wakesAfterCut(2, reconnects[i%len(reconnects)], again, again, again)
			}
		})
		late := slices.DeleteFunc([]*pushedWaiters{old, other, recent, again}, (*pushedWaiters).prompt)
		if len(late) == 0 {
			return
		}
		if chance == chances {
			t.notInTime(t.rule, "after a cut, %s gets a released key after %v (median of %d), as if it found out by a timer",
				late[0].who, late[0].median(), len(late[0].took))
		}
	}
}

// wakesAfterCut measures how soon waiters of a client learn of releases. Two were waiting, for different keys, when the
// client's connections broke, and one arrived later. The connections break cuts times.
func (t *trial) wakesAfterCut(cuts int, reconnect func(Link), old, other, recent *pushedWaiters) {
	const backoff = 2 * time.Second // enough for a client to re-establish its connections
	c, link := t.linked()
	t.usable(c)
	g, second := t.acquire(t.a, t.newKey(), t.long()), t.acquire(t.a, t.newKey(), t.long())
	waits := []*waiting{t.wait(c, g.key, t.long())}
	t.confirmQueued(g.key, 1)
	elsewhere := t.wait(c, second.key, t.long())
	t.confirmQueued(second.key, 1)
	for range cuts {
		reconnect(link)
		t.usable(c)
		t.queuesAgain(g.key, 1)
		t.queuesAgain(second.key, 1)
	}
	time.Sleep(backoff)
	waits = append(waits, t.wait(c, g.key, t.long()))
	t.confirmQueued(g.key, 2)
	begun := time.Now()
	t.inspectBy(c, g.key)
	asked := max(time.Since(begun), g.after.Sub(g.before))
	t.release(g)
	turn := old.add(t, waits, asked)
	next := waits[turn].grant
	waits = slices.Delete(waits, turn, turn+1)
	t.release(next)
	recent.add(t, waits, asked)
	t.release(waits[0].grant)
	t.release(second)
	other.add(t, []*waiting{elsewhere}, asked)
	t.release(elsewhere.grant)
}

func reconnectedHolderIsNotified(t *trial) {
	breaker, ok := t.b.(backend.Breaker)
	if ok {
		t.removedAfterCut(func(g *grant) error { return t.breaksLease(breaker, g) })
	}
	if t.h.Evict != nil {
		t.removedAfterCut(func(g *grant) error { return t.h.Evict(t.ctx, g.key) })
	} else if !ok {
		t.lacks(needsEvict, "nothing removes leases: the store is no Breaker, and the harness has no Evict hook")
	}
}

// A removal is a lease that is removed while, or after, the connection of its client breaks. cut breaks the connection
// and calls removed, which removes the lease.
type removal struct {
	of  string
	cut func(c backend.Backend, link Link, removed func(*grant))
}

// removals returns the removals of removedAfterCut.
func (t *trial) removals() []removal {
	const absent = time.Second
	cases := []removal{
		{"removed after its client had reconnected", func(c backend.Backend, link Link, removed func(*grant)) {
			g := t.acquire(c, t.newKey(), t.long())
			link.Cut()
			t.usable(c)
			removed(g)
		}},
		{"removed while its client was disconnected", func(c backend.Backend, link Link, removed func(*grant)) {
			g := t.acquire(c, t.newKey(), t.long())
			link.Refuse()
			removed(g)
			const others = 1500 // a store may keep only the latest events for a client that is away
			end := time.Now().Add(absent)
			for range t.rounds(others, end) {
				t.release(t.acquire(t.b, t.newKey(), t.long()))
			}
			time.Sleep(time.Until(end))
			link.Heal()
			t.usable(c)
		}},
		{"granted after its client had reconnected, and removed", func(c backend.Backend, link Link, removed func(*grant)) {
			link.Cut()
			t.usable(c)
			removed(t.acquire(c, t.newKey(), t.long()))
		}},
		{"waited for while its client reconnected, and removed", func(c backend.Backend, link Link, removed func(*grant)) {
			first := t.acquire(t.a, t.newKey(), t.long())
			w := t.wait(c, first.key, t.long())
			t.confirmQueued(first.key, 1)
			link.Cut()
			t.usable(c)
			t.release(first)
			removed(w.granted(t, recovery+t.g.MaxLate, "after release"))
		}},
		{"removed after its client had reconnected twice", func(c backend.Backend, link Link, removed func(*grant)) {
			g := t.acquire(c, t.newKey(), t.long())
			for range 2 {
				link.Cut()
				t.usable(c)
			}
			removed(g)
		}},
		{"removed while its client was disconnected, and whose key another owner has since",
			func(c backend.Backend, link Link, removed func(*grant)) {
				g := t.acquire(c, t.newKey(), t.long())
				link.Refuse()
				removed(g)
				next := t.acquireAfterOutage(t.b, g.key, t.long())
				time.Sleep(absent)
				link.Heal()
				t.usable(c)
				t.within(recovery, g.Lost())
				t.release(next)
			}},
		{"removed while its client was disconnected, and waited for the next one",
			func(c backend.Backend, link Link, removed func(*grant)) {
				g := t.acquire(c, t.newKey(), t.long())
				w := t.wait(c, g.key, t.long())
				t.confirmQueued(g.key, 1)
				link.Refuse()
				removed(g)
				link.Heal()
				t.usable(c)
				next := w.granted(t, recovery+t.g.MaxLate, "after the removal of another lease of its client")
				t.within(recovery, g.Lost())
				time.Sleep(lateBy)
				if next.gone() && next.live(time.Now()) && !t.mayEndLeases() {
					t.fatalf("Lost of a lease is closed: the lease before it, of the same key and client, was removed")
				}
				_ = next.Release(t.ctx)
			}},
	}
	if t.g.Shared {
		cases = append(cases, removal{"shared, and removed while its client was disconnected",
			func(c backend.Backend, link Link, removed func(*grant)) {
				g := t.read(c, t.newKey(), t.long())
				link.Refuse()
				removed(g)
				time.Sleep(absent)
				link.Heal()
				t.usable(c)
			}})
	}
	return cases
}

// removedAfterCut removes leases whose holders' connections broke, before or after the removal.
func (t *trial) removedAfterCut(remove func(g *grant) error) {
	cases := t.removals()
	t.inChunks(len(cases), 3, func(i int) {
		c, link := t.linked()
		t.usable(c)
		other := t.acquire(c, t.newKey(), t.long())
		var lost *grant
		notified := func(string) {}
		cases[i].cut(c, link, func(g *grant) {
			if g.gone() && t.mayEndLeases() {
				return
			}
			lost = g
			if _, ok := g.Lease.(backend.LossNotifier); ok {
				notified = t.countCallbacks(g).all
			}
			if err := remove(g); err != nil && !t.mayEndLeases() {
				t.fatalf("removal of a lease %s: %v", cases[i].of, err)
			}
		})
		if lost == nil {
			return
		}
		if !t.within(recovery, lost.Lost()) {
			t.fatalf("Lost is open %v after its client has reconnected: a lease %s", recovery, cases[i].of)
		}
		notified("when a lease was " + cases[i].of)
		if other.gone() && other.live(time.Now()) && !t.mayEndLeases() {
			t.fatalf("Lost of another lease is closed: one was %s", cases[i].of)
		}
		t.becomesFree(t.b, lost.key, recovery, "after the holder has learnt that its lease was removed")
	})
}
