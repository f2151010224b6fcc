package conformance

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

var manyKeyChecks = []Check{
	{
		Name: "ManyKeysAreWaitedFor",
		Rule: "rules 9 and 10: a client that waits for a hundred keys or more at once can renew and acquire meanwhile, and " +
			"gets all keys when they are released at once, promptly where Guarantees.Wake is WakePush; afterwards it keeps " +
			"no goroutine and no connection for a key, and hears nothing of it",
		run: manyKeysAreWaitedFor,
	},
}

// A manyWaiter is a client that waits for many keys at once.
type manyWaiter struct {
	*trial
	client backend.Backend
	link   Link   // of the client; nil if the harness has no Linked hook
	own    *grant // a lease of the client, which it renews while it waits
}

func manyKeysAreWaitedFor(t *trial) {
	const (
		push, poll = 128, 100 // keys; waiters that poll cost more
		first      = 32       // keys that are waited for before the measurement, so that pools grow
		more       = 32       // goroutines or connections by which pools may grow again
		least      = 2 * more // keys; a slow store is tested less thoroughly
		slowly     = 2 * time.Second
	)
	n := push
	if t.g.Wake == backend.WakePoll {
		n = poll
	}
	if n = min(n, t.h.Many-2); n < least {
		t.skipf("too few leases (Harness.Many) to measure")
	}
	m := &manyWaiter{trial: t, client: t.b}
	if t.h.Linked != nil {
		m.client, m.link = t.linked()
		t.usable(m.client)
	}
	m.own = t.acquire(m.client, t.newKey(), t.long())
	begun := time.Now()
	if m.getsAtOnce(t.newKeys(first)); time.Since(begun) > slowly {
		n = least
	}
	running, connected := goroutines(t.label), m.connections()
	keys := t.newKeys(n)
	m.getsPromptly(keys)
	what := fmt.Sprintf("a client has waited for %d keys", n)
	t.waitForGoroutines(running+more, what)
	if !t.poll(soon, func() bool { return m.connections() <= connected+more }) {
		t.breaks(10, "%s: it has %d connections, before %d", what, m.connections(), connected)
	}
	m.hearsNothing(keys)
	t.release(m.own)
}

// newKeys returns n fresh keys.
func (t *trial) newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = t.newKey()
	}
	return keys
}

// connections returns how many connections the client has, or 0 if that is unknown.
func (m *manyWaiter) connections() int {
	if m.link == nil {
		return 0
	}
	return m.link.Connections()
}

// getsAtOnce waits for all keys, and releases them at once. It returns how long the client then takes to get them all.
func (m *manyWaiter) getsAtOnce(keys []string) (took time.Duration) {
	m.renew(m.own, m.long()) // a store with a short MaxTTL may need most of the TTL for so many waiters
	held, waits := make([]*grant, len(keys)), make([]*waiting, len(keys))
	m.inTurns(len(keys), func(i int) {
		held[i] = m.acquire(m.a, keys[i], m.long())
		waits[i] = m.wait(m.client, keys[i], m.long())
		m.arrived(keys[i], 1)
	})
	m.isServed("Renew", len(keys), func() error { return m.own.Renew(m.ctx, m.long()) })
	m.isServed("Acquire of a free key", len(keys), func() error {
		g, err := m.requestKey(m.ctx, m.client, m.newKey(), m.long(), false)
		if err != nil {
			return err
		}
		return g.Release(m.ctx)
	})
	begun := time.Now()
	m.inTurns(len(keys), func(i int) { m.release(held[i]) })
	for _, w := range waits {
		w.granted(m.trial, m.handOff(), fmt.Sprintf("after the release of %d keys that one client waits for", len(keys)))
	}
	took = time.Since(begun)
	m.inTurns(len(keys), func(i int) { m.release(waits[i].grant) })
	return took
}

// isServed makes a request of the client, which waits for n keys meanwhile.
func (m *manyWaiter) isServed(what string, n int, request func() error) {
	deadline, begun := m.own.Deadline(), time.Now()
	call := m.call(request)
	if !m.within(soon, call.done) {
		m.notInTime(m.rule, "%s by a client that waits for %d keys has not returned within %v", what, n, soon)
	}
	m.lateOnTimeout(call.err, begun)
	m.lostInTime(call.err, deadline, begun, m.long())
	if call.err != nil {
		m.fatalf("%s by a client that waits for %d keys: %v", what, n, call.err)
	}
}

// getsPromptly is getsAtOnce, and fails if some waiters seem to find out by a timer although the store notifies them.
// A machine that is too busy gets a second and a third chance.
func (m *manyWaiter) getsPromptly(keys []string) {
	const (
		chances = 3
		idle    = 500 * time.Millisecond
		factor  = 4 // how much longer the waiters may take than the same number of attempts
	)
	for chance := 1; ; chance++ {
		begun := time.Now()
		m.inTurns(len(keys), func(int) { m.release(m.acquire(m.client, m.newKey(), m.long())) })
		most := idle + factor*time.Since(begun)
		took := m.getsAtOnce(keys)
		if took <= most || m.g.Wake != backend.WakePush {
			return
		}
		if chance == chances {
			m.notInTime(wakeRule, "%d keys were released at once, and the client that waits for them has them after %v; "+
				"as many attempts and releases take %v", len(keys), took.Round(time.Millisecond),
				((most - idle) / factor).Round(time.Millisecond))
		}
	}
}

// hearsNothing fails if the client receives messages when others use keys that it has waited for.
func (m *manyWaiter) hearsNothing(keys []string) {
	const slack = 1 << 10 // bytes, for heartbeats
	if m.link == nil {
		return
	}
	received := func(keys []string) int64 {
		before := m.link.Passed(FromStore)
		m.inTurns(len(keys), func(i int) { m.release(m.acquire(m.trial.client(i), keys[i], m.long())) })
		time.Sleep(underWay)
		return m.link.Passed(FromStore) - before
	}
	usual := received(m.newKeys(len(keys)))
	for end := time.Now().Add(soon); ; time.Sleep(10 * tick) {
		heard := received(keys)
		if heard <= 2*usual+slack {
			return
		}
		if time.Now().After(end) {
			m.breaks(10, "a client has received %d bytes while others used %d keys that it had waited for; %d bytes while "+
				"they used as many others", heard, len(keys), usual)
		}
	}
}

// outlastsOthers acquires and releases thousands of keys. A lease, a waiter and the tokens of a free key must outlast
// them.
func (t *trial) outlastsOthers() {
	const (
		others = 2500
		atMost = 1500 * time.Millisecond // slow stores get fewer
		own    = 4                       // leases and waits of each client besides
	)
	free := t.acquire(t.a, t.newKey(), t.long())
	t.release(free)
	held := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(t.b, held.key, t.long())
	t.arrived(held.key, 1)
	reader := held
	if t.g.Shared {
		reader = t.read(t.a, t.newKey(), t.long())
	}
	workers, end := max(1, min(turns, t.h.Many-own)), time.Now().Add(atMost)
	var made atomic.Int64
	t.together(workers, func(i int) {
		for range t.rounds(others/workers, end) {
			t.release(t.acquire(t.client(i), t.newKey(), t.long()))
			made.Add(1)
		}
	})
	t.notef("%d other keys", made.Load())
	w.stillWaits(t, held, t.rule)
	t.heldBy(held)
	t.heldBy(reader)
	t.release(held)
	t.release(w.granted(t, t.handOff(), "after release, and thousands of releases of other keys"))
	if reader != held {
		t.release(reader)
	}
	next := t.acquire(t.b, free.key, t.long())
	t.tokenAbove(next, free, "after thousands of grants of other keys")
	t.release(next)
}
