package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

var partitionChecks = []Check{
	{
		Name: "PartitionLosesBeforeNext",
		Rule: "rules 1 and 6: when the network fails, with a renewal in flight, Lost closes before another client " +
			"gets the key, " +
			"whichever way packets are lost",
		Needs: []Need{needsLinked},
		run:   partitionLosesBeforeNext,
	},
	{
		Name:  "PartitionedWaiterLeavesQueue",
		Rule:  "rule 9: a waiter that is cut off delays the next one by a bounded time",
		Needs: []Need{needsLinked},
		run:   partitionedWaiterLeavesQueue,
	},
	{
		Name:  "PartitionHealsWaiter",
		Rule:  "rule 9: a waiter that was cut off for a while, and missed a release, gets the key",
		Needs: []Need{needsLinked},
		run:   partitionHealsWaiter,
	},
	{
		Name: "PartitionedReleaseIsBounded",
		Rule: "Lease.Release is bounded by a timeout of its own while the network fails, and is not nil, nor is a second " +
			"one; the key is free by the TTL, or when the network works again",
		Needs: []Need{needsLinked},
		run:   partitionedReleaseIsBounded,
	},
	{
		Name: "PartitionHonoursContext",
		Rule: "rule 4: calls return promptly with their context's error while the network fails, and do not call a key " +
			"busy of which they have heard nothing; nothing stays behind",
		Needs: []Need{needsLinked},
		run:   partitionHonoursContext,
	},
	{
		Name: "PartitionedCloseIsBounded",
		Rule: "Backend.Close ends leases and waiters at once, and returns in a bounded time, even while the network " +
			"fails or dials get no answer",
		Needs: []Need{needsLinked},
		run:   partitionedCloseIsBounded,
	},
	{
		Name:  "WakeUpCutParksNobody",
		Rule:  "rule 9: no waiter stays parked on a free key, whenever the connections break that wake-ups come by",
		Needs: []Need{needsLinked},
		run:   wakeUpCutParksNobody,
	},
}

// partition makes link drop all data in the given directions.
func partition(link Link, directions ...Direction) {
	for _, d := range directions {
		link.Drop(d)
	}
}

func partitionLosesBeforeNext(t *trial) {
	const noticed = 1500 * time.Millisecond // by then a client may have tried to reconnect
	ttl := t.g.Round(max(noticed, 2*t.g.MinTTL) * time.Duration(t.stretch))
	ways := [][]Direction{{ToStore, FromStore}, {ToStore}, {FromStore}}
	t.eachRenewal(len(ways), func(i int, way renewal) {
		c, link := t.linked()
		t.usable(c)
		g := t.acquire(c, t.newKey(), ttl)
		w := t.wait(t.b, g.key, t.long())
		t.confirmQueued(g.key, 1)
		partition(link, ways[i]...)
		renewal := t.call(func() error { return way.renew(t.ctx, g, ttl) })
		// The renewal may have reached the store, which then keeps the key for longer than the holder knows.
		next := w.granted(t, 2*ttl+t.handOff(), "after the expiry of a holder that is cut off")
		if early := g.Deadline().Sub(next.after); early > 0 && !g.gone() {
			t.doubleGrant("the next owner was granted the key %v before the deadline of a holder that is cut off", early)
		}
		if !t.within(10*tick, g.Lost()) { // the goroutine that closes Lost may have to run first
			t.fatalf("the next owner is in and Lost is not closed, %v after the deadline", time.Since(g.Deadline()))
		}
		if err := renewal.ends(t, soon, way.what+" during a partition"); err == nil {
			t.doubleGrant("%s succeeded during a partition, and the key went to another owner before its deadline", way.what)
		}
		t.isLost(g.Renew(t.ctx, ttl), "Renew of a lease that is lost, during a partition")
		t.heldBy(next)
		link.Heal()
		t.usable(c)
		t.heldBy(next)
		t.release(next)
	})
}

func partitionedWaiterLeavesQueue(t *trial) {
	c, link := t.linked()
	t.usable(c)
	g := t.acquire(t.a, t.key, t.long())
	away := t.wait(c, t.key, t.short())
	t.confirmQueued(t.key, 1)
	w := t.wait(t.b, t.key, t.long())
	t.confirmQueued(t.key, 2)
	partition(link, ToStore, FromStore)
	t.release(g)
	bound := 2*t.g.Round(t.short()) + t.g.MaxLate + t.handOff()
	next := w.granted(t, bound, "after release, with a waiter before it that is cut off")
	if away.ended() && away.err == nil && !away.grant.gone() && next.after.Before(away.grant.Deadline()) {
		t.doubleGrant("two waiters hold the key, one of them cut off")
	}
	t.heldBy(next)
	link.Heal()
	t.usable(c)
	t.heldBy(next)
	t.within(t.h.ArrivalDelay, away.done) // the waiter checks the queue again
	before := time.Now()
	t.release(next)
	if !t.within(bound+recovery, away.done) {
		t.fatalf("a waiter that was cut off has neither been granted the free key nor failed %v after that ended",
			bound+recovery)
	}
	if g := away.grant; away.err == nil && g.after.After(next.after) && g.after.Before(before) && g.live(g.after) {
		t.doubleGrant("a waiter that was cut off was granted the key while the next one holds it")
	}
	if errors.Is(away.err, backend.ErrHeld) {
		t.fatalf("a waiter that was cut off: %v", away.err)
	}
}

func partitionHealsWaiter(t *trial) {
	const outage = 700 * time.Millisecond
	t.together(2, func(i int) {
		c, link := t.linked()
		t.usable(c)
		key := t.newKey()
		g := t.acquire(t.a, key, t.long())
		w := t.wait(c, key, t.short())
		t.confirmQueued(key, 1)
		partition(link, ToStore, FromStore)
		if i == 0 {
			t.release(g) // no notification reaches the waiter
		}
		time.Sleep(outage)
		if w.ended() && w.err != nil {
			w.failed(t)
			t.fatalf("a waiting Acquire ended while it was cut off: %v", w.err)
		}
		link.Heal()
		if i == 1 {
			t.release(g)
		}
		next := w.granted(t, recovery+t.g.Round(t.short())+t.g.MaxLate, "after a release around a partition")
		t.refused(t.b, next)
		_ = next.Release(t.ctx)
		t.becomesFree(t.b, key, recovery+t.g.Round(t.short())+t.g.MaxLate, "after the release by a waiter that was cut off")
	})
}

// releaseBound limits a Release that gets no reply. The store's own timeout is shorter.
const releaseBound = 15 * time.Second

func partitionedReleaseIsBounded(t *trial) {
	c, link := t.linked()
	var kept []*grant
	for _, shared := range t.modes() {
		kept = append(kept, t.getterOf(shared)(c, t.newKey(), t.long()))
	}
	g := t.acquire(c, t.key, 2*t.short())
	partition(link, ToStore, FromStore)
	t.together(1+len(kept), func(i int) {
		if i > 0 {
			t.staysUnreleased(kept[i-1])
			return
		}
		release := t.call(func() error { return g.Release(t.ctx) })
		t.becomesFree(t.b, t.key, time.Until(t.lastRefusal(g.after, g.ttl)),
			"in the TTL of a holder that is cut off and releasing")
		if err := release.ends(t, releaseBound, "Release while cut off"); err == nil {
			t.fatalf("Release succeeded while cut off")
		}
	})
	link.Heal()
	t.usable(c)
	for _, g := range kept {
		t.releasesAfterAll(g)
	}
}

// staysUnreleased releases g, whose client is cut off, twice. The second Release must not succeed because the first has
// only made the client forget the lease.
func (t *trial) staysUnreleased(g *grant) {
	for i, what := range []string{"Release while cut off", "second Release while cut off"} {
		release := t.call(func() error { return g.Release(t.ctx) })
		bound := time.Duration(1+i) * releaseBound // the second may wait for a repetition of the first in the background
		if err := release.ends(t, bound, what); err == nil {
			t.fatalf("%s succeeded, and the store has the lease", what)
		}
	}
}

// releasesAfterAll releases g when its client is no longer cut off.
func (t *trial) releasesAfterAll(g *grant) {
	var err error
	if !t.poll(recovery, func() bool { err = g.Release(t.ctx); return err == nil }) && !t.excused(g, err) &&
		!t.deadlineSlides(g) { // the lease may have ended because its client was not in contact
		t.fatalf("Release after two that failed while cut off: %v, want nil", err)
	}
	t.becomesFree(t.b, g.key, recovery, "after a Release that followed two that failed")
}

func partitionHonoursContext(t *trial) {
	c, link := t.linked()
	t.usable(c)
	held := t.acquire(c, t.newKey(), t.long())
	busy := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(c, busy.key, t.long())
	t.confirmQueued(busy.key, 1)
	all, free := t.methods(c, held)
	partition(link, ToStore, FromStore)
	t.together(len(all), func(i int) {
		const patience = 200 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.ctx, patience)
		defer cancel()
		err := t.call(func() error { return all[i].do(ctx) }).ends(t, patience+soon,
			all[i].name+" whose context ended while cut off")
		if !t.excused(held, err) {
			t.endsByDeadline(err, all[i].name+" while cut off")
		}
		t.notBusy(err, "while cut off")
	})
	w.cancelAndFail(t)
	link.Heal()
	t.usable(c)
	for _, key := range free {
		t.becomesFree(t.b, key, recovery, "after an Acquire whose context ended while cut off")
	}
	t.release(busy)
	t.becomesFree(t.b, busy.key, recovery, "after the release of a key whose waiter left while cut off")
}

func partitionedCloseIsBounded(t *trial) {
	blocks := []func(Link){func(l Link) { partition(l, ToStore, FromStore) }, Link.Refuse, ignoreOrRefuse}
	t.inChunks(len(blocks), 4, func(i int) { t.closesCutOff(blocks[i]) })
}

// ignoreOrRefuse leaves dials through link unanswered. If the link cannot do that, it refuses them.
func ignoreOrRefuse(link Link) {
	if l, ok := link.(IgnoringLink); ok {
		l.Ignore()
		return
	}
	link.Refuse()
}

// closesCutOff closes a client whose link block has cut off.
func (t *trial) closesCutOff(block func(Link)) {
	c, link := t.linked()
	t.usable(c)
	busy := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(c, busy.key, t.short())
	t.confirmQueued(busy.key, 1)
	g := t.acquire(c, t.newKey(), t.short())
	releasing := t.acquire(c, t.newKey(), t.short())
	block(link)
	time.Sleep(50 * time.Millisecond) // the waiter may notice the end of its connection
	release := t.call(func() error { return releasing.Release(t.ctx) })
	closed := t.call(c.Close)
	if err := w.fails(t, "Acquire whose client was closed while cut off"); !errors.Is(err, backend.ErrClosed) {
		t.fatalf("Acquire whose client was closed while cut off: %v, want ErrClosed", err)
	}
	if !t.within(soon, g.Lost()) {
		t.fatalf("Lost is not closed %v after Close", soon)
	}
	if err := closed.ends(t, soon, "Close while cut off"); err != nil {
		t.fatalf("Close while cut off: %v", err)
	}
	_ = release.ends(t, soon, "Release of a client that was closed while cut off")
	t.becomesFree(t.b, g.key, time.Until(t.lastRefusal(g.after, g.ttl)),
		"in the TTL of a holder that was closed while cut off")
	t.release(busy)
	t.becomesFree(t.b, busy.key, t.handOff()+2*t.short(),
		"after the release of a key whose waiter was closed while cut off")
}

func wakeUpCutParksNobody(t *trial) {
	const (
		clients = 3
		least   = 4
		most    = 20
		atMost  = 4 * time.Second
	)
	type peer struct {
		backend.Backend
		link Link
	}
	var peers [clients]peer
	t.together(clients, func(i int) { peers[i].Backend, peers[i].link = t.linked() })
	cut := func() {
		for _, p := range peers {
			p.link.Cut()
		}
	}
	bound := recovery + t.g.Round(t.short()) + t.g.MaxLate // a lease granted to a broken connection ends by its TTL
	end := time.Now().Add(atMost)
	for round := range most {
		if round >= least && time.Now().After(end) {
			return
		}
		key := t.newKey()
		g := t.acquire(t.a, key, t.long())
		var waits [clients]*waiting
		for i, p := range peers {
			waits[i] = t.wait(p, key, t.short())
		}
		t.confirmQueued(key, clients)
		switch round % 4 { // when connections break, and how often
		case 0:
			cut()
			t.release(g)
		case 1:
			released := t.call(func() error { t.release(g); return nil })
			cut()
			<-released.done
		case 2:
			t.release(g)
			time.Sleep(rand.N(3 * time.Millisecond))
			cut()
		case 3:
			for range 5 {
				cut()
				time.Sleep(rand.N(10 * time.Millisecond))
			}
			t.release(g)
			cut()
		}
		for served := range clients { // in any order; a grant lost with its connection ends only by its TTL
			if !t.poll(bound, func() bool { return t.serve(waits[:]) > served }) {
				t.fatalf("a waiter is parked on a free key: %d of %d had their turn, and no other within %v after a release "+
					"around which connections broke", served, clients, bound)
			}
		}
		t.becomesFree(t.b, key, bound, "when all waiters whose connections broke had their turn")
	}
}

// serve releases the leases that the waits were granted, and returns how many waits have ended.
func (t *trial) serve(waits []*waiting) (ended int) {
	for _, w := range waits {
		if !w.ended() {
			continue
		}
		ended++
		if w.err != nil {
			w.failed(t)
			t.fatalf("a waiting Acquire whose connections broke: %v", w.err)
		}
		_ = w.grant.Release(t.ctx)
	}
	return ended
}
