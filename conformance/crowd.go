package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

var crowdChecks = []Check{
	{
		Name: "ContentionParksNobody",
		Rule: "rule 9: in round after round of contention, with waiters that leave as the key is granted, nobody stays " +
			"parked on a free key",
		run: contentionParksNobody,
	},
	{
		Name: "CancelledWaitersLeaveNothing",
		Rule: "rules 4 and 10: a thousand waiters that were cancelled leave no place in the queue, no goroutine, and no " +
			"hold on the key",
		run: cancelledWaitersLeaveNothing,
	},
	{
		Name: "RenewAgainstRelease",
		Rule: "rule 5: however a renewal meets the release of its lease, thousands of times, the release succeeds and " +
			"nothing lives afterwards",
		run: renewAgainstRelease,
	},
	{
		Name: "FailedRequestsChangeNothing",
		Rule: "rules 3 and 5: refused attempts, stale renewals and failed releases change neither the holder's lease " +
			"nor the queue",
		run: failedRequestsChangeNothing,
	},
}

// contentionParksNobody runs goroutines of both clients that contend for a key, on two keys at the same time.
func contentionParksNobody(t *trial) {
	const (
		workers = 2 // each on a key of its own
		rounds  = 20
		more    = 5 * rounds // limit for fast stores, which make rounds until atLeast
		atLeast = 2 * time.Second
		atMost  = 10 * time.Second // slow stores make fewer rounds
		least   = 4
		most    = 10
	)
	typical := t.typical()
	each := max(1, min(most, t.h.Many/workers-1)) // per client
	begun := time.Now()
	var all atomic.Int64
	t.together(workers, func(int) {
		key := t.newKey()
		for round := range more {
			took := time.Since(begun)
			if t.ended() || round >= least && took > atMost || round >= rounds && took > atLeast {
				return
			}
			n := 2 * each
			if round%3 != 0 { // with few waiters, a waiter may arrive as the queue becomes empty
				n = 2 + rand.N(min(n-1, 4))
			}
			c := &contention{trial: t, key: key}
			c.round(n, typical)
			t.becomesFree(t.client(round), key, time.Second+t.g.MaxLate, "after a round of contention")
			all.Add(1)
		}
	})
	t.notef("%d rounds of up to %d waiters", all.Load(), 2*each)
}

// A contention is one round of contention for a key.
type contention struct {
	*trial
	key   string
	waits []*waiting
	ready chan struct{} // closed when all waits have been started
}

// round starts n waiters at about the same time. Each is granted the key or leaves the queue.
func (c *contention) round(n int, typical time.Duration) {
	var (
		all     sync.WaitGroup
		granted atomic.Int64
		leaving = rand.N(n) // how many waiters leave the queue
	)
	c.waits, c.ready = make([]*waiting, n), make(chan struct{})
	for i := range n {
		c.waits[i] = c.wait(c.client(i), c.key, c.long())
		all.Add(1)
		c.spawn(func() {
			defer all.Done()
			w := c.waits[i]
			<-w.done
			<-c.ready
			switch {
			case errors.Is(w.err, context.Canceled):
			case w.err != nil:
				w.failed(c.trial)
				c.fatalf("a waiting Acquire: %v", w.err)
			default:
				if granted.Add(1) <= int64(leaving) {
					c.handOverTo(c.waits[rand.N(n)], w.grant, typical)
					return
				}
				time.Sleep(rand.N(typical))
				c.release(w.grant)
			}
		})
		if rand.N(3) == 0 {
			time.Sleep(rand.N(typical))
		}
	}
	close(c.ready)
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	if c.within(time.Duration(n)*time.Second/4+c.handOff(), done) || c.ended() {
		return
	}
	parked := 0
	for _, w := range c.waits {
		if !w.ended() {
			parked++
		}
	}
	which := "free key"
	if h := c.inspect(c.key); h.Held() {
		which = "key that is still held by " + h.Owner
	}
	c.fatalf("%d of %d waiters are parked on a %s", parked, n, which)
}

// handOverTo releases g and cancels w, which may be next, at about the same time.
func (c *contention) handOverTo(w *waiting, g *grant, typical time.Duration) {
	leaves := make(chan struct{})
	c.spawn(func() { defer close(leaves); cancelSoon(w.cancel, 2*typical) })
	c.release(g)
	<-leaves
}

// cancelledWaitersLeaveNothing cancels waiters of both clients, in waves: some as they arrive, some while they are
// queued.
func cancelledWaitersLeaveNothing(t *trial) {
	const (
		all    = 1000
		least  = 200
		atMost = 6 * time.Second // slow stores cancel fewer waiters
		wave   = 64              // per client
	)
	held := t.acquire(t.a, t.key, t.long())
	typical := t.typical()
	each := min(wave, t.h.Many/2)
	cancelled := t.cancelQueued(each) // now each client has the connections and goroutines that it keeps
	t.queueAtMost(0)
	before := goroutines(t.label)
	for end := time.Now().Add(atMost); cancelled < all && (cancelled < least || time.Now().Before(end)); {
		cancelled += t.cancelQueued(each)
		cancelled += t.cancelArriving(each, typical)
	}
	t.queueAtMost(0)
	const more = 8
	t.waitForGoroutines(before+more, "after hundreds of cancelled waiters")
	t.heldBy(held)
	t.release(held)
	t.becomesFree(t.b, t.key, time.Second+t.g.MaxLate, "after release, with cancelled waiters before")
	(&raced{t: t, keys: []string{t.key}}).stayFree()
	if t.inspect(t.key).Held() {
		t.fatalf("after release, with %d cancelled waiters before: somebody holds the key", cancelled)
	}
	for _, client := range []backend.Backend{t.b, t.a} {
		next := t.free(client, t.key, "after release, with cancelled waiters before")
		if t.g.Fencing > backend.FencingNone && next.Token() <= held.Token() {
			t.fatalf("token %d after %d", next.Token(), held.Token())
		}
	}
	t.notef("%d waiters", cancelled)
}

// cancelQueued queues waiters for the held key, the given number for each client. It cancels all of them, and returns
// how many there were.
func (t *trial) cancelQueued(each int) int {
	var waits []*waiting
	for i := range 2 * each {
		waits = append(waits, t.wait(t.client(i), t.key, t.long()))
	}
	t.arrived(t.key, 2*each)
	for _, w := range waits {
		w.cancel()
	}
	for _, w := range waits {
		w.cancelAndFail(t)
	}
	return 2 * each
}

// cancelArriving is cancelQueued for waiters that may not have reached the queue yet.
func (t *trial) cancelArriving(each int, typical time.Duration) int {
	t.together(2*each, func(i int) {
		w := t.wait(t.client(i), t.key, t.long())
		cancelSoon(w.cancel, time.Duration(1+i%8)*typical)
		w.cancelAndFail(t)
	})
	t.queueAtMost(0)
	return 2 * each
}

// renewAgainstRelease races a renewal with the release of the lease, again and again. The other client acquires the key
// immediately afterwards.
func renewAgainstRelease(t *trial) {
	const (
		workers = 4 // at most, each on a key of its own
		rounds  = 10000 / workers
		least   = 300 / workers
		atMost  = 4 * time.Second // slow stores make fewer rounds
	)
	typical := t.typical()
	end := time.Now().Add(atMost)
	var races atomic.Int64
	t.together(min(workers, t.h.Many), func(int) {
		key, s := t.newKey(), &tokens{t: t}
		for round := range rounds {
			if t.ended() || round >= least && time.Now().After(end) {
				return
			}
			client := t.client(round)
			g, err := t.attempt(client, key, t.long())
			if err != nil {
				t.fatalf("after a release that raced with a renewal: the key is not free: %v", err)
			}
			if t.g.Fencing > backend.FencingNone {
				s.next(g, "grant after a release that raced with a renewal")
			}
			t.raceOneRenewal(g, typical)
			races.Add(1)
		}
	})
	t.notef("%d races", races.Load())
}

// raceOneRenewal releases g while a renewal is under way, or about to be.
func (t *trial) raceOneRenewal(g *grant, typical time.Duration) {
	ways := t.renewals()
	way := ways[rand.N(len(ways))]
	t.together(2, func(i int) {
		if rand.N(2) == 0 {
			time.Sleep(rand.N(typical))
		}
		if i == 0 {
			t.release(g)
			return
		}
		begun := time.Now()
		err := way.renew(t.ctx, g, t.long())
		t.lateOnTimeout(err, begun)
		if err != nil && !errors.Is(err, backend.ErrLost) {
			t.fatalf("%s racing with Release: %v, want nil or ErrLost", way.what, err)
		}
	})
	t.isLost(g.Renew(t.ctx, t.long()), "Renew after Release")
	if g.gone() {
		t.fatalf("Lost is closed after a Release that returned nil")
	}
}
