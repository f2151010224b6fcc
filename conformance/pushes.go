package conformance

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// A pushWay is a situation in which a waiter must be notified of the end of a lease. push makes one or more waiters
// wait for key, and measures how soon each of them learns that the key is free.
type pushWay struct {
	waiters *pushedWaiters
	push    func(key string, round int, p *pushedWaiters)
}

// pushWays returns the situations that the store and the harness make possible.
func (t *trial) pushWays() []pushWay {
	ways := []pushWay{
		{&pushedWaiters{who: "a waiter whose client has given up other waits"}, t.pushesAfterLeaving},
		{&pushedWaiters{who: "a waiter whose holder is broken"}, t.pushesAfterBreak},
		{&pushedWaiters{who: "a waiter whose holder has renewed its lease"}, t.pushesAfterRenewal},
		{&pushedWaiters{who: "a waiter that came when its client had given up its waits"}, t.pushesAfterAllLeft},
		{&pushedWaiters{who: "a waiter whose client has given up others at their turns"}, t.pushesAfterTurns},
		{&pushedWaiters{who: "a waiter whose holder is of another client, and had waited itself"}, t.pushesAcross},
		{&pushedWaiters{who: "a waiter whose client has released its only lease"}, t.pushesAfterOwnRelease},
		{&pushedWaiters{who: "a waiter for a key whose last lease has expired"}, t.pushesAfterExpiry},
		{&pushedWaiters{who: "a waiter beside one whose client was closed"}, t.pushesAfterClose},
		{&pushedWaiters{who: "a waiter whose holder releases with an ended context"}, t.pushesFromEnded},
	}
	if t.h.Linked != nil {
		ways = append(ways, pushWay{&pushedWaiters{who: "a waiter on a slow path that comes just before the release"},
			t.pushesOnSlowPath})
	}
	if t.h.Process == nil {
		return ways
	}
	p := t.process(0)
	return append(ways,
		pushWay{&pushedWaiters{who: "a waiter of another process"},
			func(key string, _ int, w *pushedWaiters) { t.pushesTo(p, key, w) }},
		pushWay{&pushedWaiters{who: "a waiter behind a holder of another process"},
			func(key string, _ int, w *pushedWaiters) { t.pushesFrom(p, key, w) }})
}

// awhile sleeps for a random time, so that polls are out of step with the release that follows.
func (t *trial) awhile() { time.Sleep(pushedAfter + rand.N(pushedAfter)) }

// pushed lets end end the lease g, for whose key w waits, and measures how soon w has the key.
func (t *trial) pushed(p *pushedWaiters, g *grant, w *waiting, end func()) {
	t.awhile()
	end()
	p.add(t, []*waiting{w}, g.after.Sub(g.before))
	t.release(w.grant)
}

// pushesAfterLeaving lets two other waiters of the waiter's client give up: one for the same key, and one for another
// key.
func (t *trial) pushesAfterLeaving(key string, _ int, p *pushedWaiters) {
	g, other := t.acquire(t.a, key, t.long()), t.acquire(t.a, t.newKey(), t.long())
	leaving := []*waiting{t.wait(t.b, key, t.long()), t.wait(t.b, other.key, t.long())}
	t.arrived(key, 1)
	t.arrived(other.key, 1)
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 2)
	for _, l := range leaving {
		l.cancelAndFail(t)
	}
	t.queueAtMostOf(key, 1)
	t.release(other)
	t.pushed(p, g, w, func() { t.release(g) })
}

// pushesAfterAllLeft lets the only waiter give up before another one of its client comes.
func (t *trial) pushesAfterAllLeft(key string, _ int, p *pushedWaiters) {
	g := t.acquire(t.a, key, t.long())
	only := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	only.cancelAndFail(t)
	t.queueAtMostOf(key, 0)
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	t.pushed(p, g, w, func() { t.release(g) })
}

// pushesAfterTurns lets waiters of a new client give up as they are granted their keys. Then another one of that client
// comes.
func (t *trial) pushesAfterTurns(key string, _ int, p *pushedWaiters) {
	const turns, atMost = 8, 500 * time.Millisecond
	c, typical := t.open(), t.typical()
	for range t.rounds(turns, time.Now().Add(atMost)) {
		g := t.acquire(t.a, t.newKey(), t.long())
		w := t.wait(c, g.key, t.long())
		t.arrived(g.key, 1)
		released := t.call(func() error { t.release(g); return nil })
		cancelSoon(w.cancel, typical)
		t.eitherOr(w)
		<-released.done
	}
	g := t.acquire(t.a, key, t.long())
	w := t.wait(c, key, t.long())
	t.arrived(key, 1)
	t.pushed(p, g, w, func() { t.release(g) })
	t.closes(c)
}

// pushesAfterOwnRelease makes a client wait that holds another key, and releases that other key.
func (t *trial) pushesAfterOwnRelease(key string, _ int, p *pushedWaiters) {
	c := t.open()
	g, own := t.acquire(t.a, key, t.long()), t.acquire(c, t.newKey(), t.long())
	w := t.wait(c, key, t.long())
	t.arrived(key, 1)
	t.release(own)
	t.pushed(p, g, w, func() { t.release(g) })
	t.closes(c)
}

// pushesAcross passes the key from a waiter of one client to a waiter of the other, several times.
func (t *trial) pushesAcross(key string, _ int, p *pushedWaiters) {
	const waiters = 4
	g := t.acquire(t.a, key, t.long())
	asked := g.after.Sub(g.before)
	var waits []*waiting
	for i := range waiters {
		waits = append(waits, t.wait(t.client(i+1), key, t.long()))
		t.arrived(key, i+1)
	}
	for len(waits) > 0 {
		t.awhile()
		t.release(g)
		turn := p.add(t, waits, asked)
		g = waits[turn].grant
		waits = slices.Delete(waits, turn, turn+1)
	}
	t.release(g)
}

// pushesOnSlowPath releases the key when the waiter is in the queue, and its next requests are still on their way. So a
// notification that the waiter requests, after it has found the key busy, comes into effect after the release.
func (t *trial) pushesOnSlowPath(key string, _ int, p *pushedWaiters) {
	const delay, requests = 60 * time.Millisecond, 5 // as if a request took longer: a waiter may make several, in turn
	c, link := t.linked()
	t.usable(c)
	g := t.acquire(t.a, key, t.long())
	link.Delay(ToStore, delay)
	w := t.wait(c, key, t.long())
	t.arrived(key, 1)
	t.release(g)
	p.add(t, []*waiting{w}, requests*delay+g.after.Sub(g.before))
	link.Heal()
	t.release(w.grant)
}

// pushesAfterExpiry lets an earlier lease of the key expire.
func (t *trial) pushesAfterExpiry(key string, _ int, p *pushedWaiters) {
	t.expire(t.acquire(t.a, key, t.short()))
	g := t.acquire(t.a, key, t.long())
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	t.pushed(p, g, w, func() { t.release(g) })
}

// pushesAfterClose closes another client that waits for the same key.
func (t *trial) pushesAfterClose(key string, _ int, p *pushedWaiters) {
	c := t.open()
	g := t.acquire(t.a, key, t.long())
	leaves := t.wait(c, key, t.long())
	t.arrived(key, 1)
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 2)
	t.closes(c)
	leaves.fails(t, "Acquire waiting at Close")
	t.queueAtMostOf(key, 1)
	t.pushed(p, g, w, func() { t.release(g) })
}

// pushesFromEnded releases the key with a context that has ended.
func (t *trial) pushesFromEnded(key string, _ int, p *pushedWaiters) {
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	g := t.acquire(t.a, key, t.long())
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	t.pushed(p, g, w, func() {
		begun := time.Now()
		err := g.Release(ended)
		t.lateOnTimeout(err, begun)
		if err != nil {
			t.breaksText(releaseRule, "Release with an ended context: %v", err)
		}
	})
}

// pushesAfterBreak breaks the holder's lease. It does nothing if the store does not support Break.
func (t *trial) pushesAfterBreak(key string, _ int, p *pushedWaiters) {
	breaker, ok := t.a.(backend.Breaker)
	if !ok {
		return
	}
	g := t.acquire(t.a, key, t.long())
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	t.pushed(p, g, w, func() { t.mustBreak(breaker, g) })
}

// pushesAfterRenewal renews the holder's lease, alone or in a batch, while the waiter waits.
func (t *trial) pushesAfterRenewal(key string, round int, p *pushedWaiters) {
	g := t.acquire(t.a, key, t.long())
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	ways := t.renewals()
	t.renewBy(g, t.long(), func() error { return ways[round%len(ways)].renew(t.ctx, g, t.long()) })
	t.pushed(p, g, w, func() { t.release(g) })
}

// pushesTo lets another process wait.
func (t *trial) pushesTo(p Process, key string, waiters *pushedWaiters) {
	asked := t.remoteDelay(p)
	g := t.acquire(t.a, key, t.long())
	r := t.remoteWait(p, key, t.long(), 1)
	t.awhile()
	t.release(g)
	waiters.addRemote(r, asked)
	r.release()
}

// pushesFrom lets another process hold the key and release it.
func (t *trial) pushesFrom(p Process, key string, waiters *pushedWaiters) {
	asked := t.remoteDelay(p)
	r := t.remoteHold(p, key, t.long())
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	t.awhile()
	r.release()
	waiters.add(t, []*waiting{w}, asked)
	t.release(w.grant)
}

// remoteDelay returns how long a request of process p may take, with a reserve: unlike a standstill of the suite's
// process, one of p is not noticed.
func (t *trial) remoteDelay(p Process) time.Duration { return t.remoteUsual(p) + 2*tick }

// addRemote is add for a waiter of another process.
func (p *pushedWaiters) addRemote(r *remote, asked time.Duration) {
	ticks := 0 // as in add
	for ; !r.answered(0) && ticks < int(r.t.handOff()/tick); ticks++ {
		time.Sleep(tick)
	}
	p.record(ticks, asked)
	r.granted(tick, "after release")
}
