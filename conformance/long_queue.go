package conformance

import (
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

var longQueueChecks = []Check{
	{
		Name: "LongQueueIsServed",
		Rule: "rules 3, 5 and 9: in a long queue of mixed TTLs the holder's renewals count, and each waiter gets its own " +
			"TTL, in its turn",
		run: longQueueIsServed,
	},
}

// waiters returns how many waits for a key two clients can have, besides a lease of one of them, but no more than most.
func (t *trial) waiters(most int) int { return min(most, 2*(t.h.Many-1)) }

// longQueue returns the number of waiters in a long queue. It is smaller if waiters poll without a queue.
func (t *trial) longQueue() int {
	const queue, pollers = 64, 24
	if t.g.Wake == backend.WakePoll {
		return t.waiters(pollers)
	}
	return t.waiters(queue)
}

// A crowd is the holder of a key and the waiters for it.
type crowd struct {
	*trial
	g     *grant
	waits []*waiting
	ttls  []time.Duration
	batch bool // the next renewal is in a batch
}

// kinds returns the number of kinds of renewals: alone, and in a batch if the store supports batches.
func (c *crowd) kinds() int {
	if _, ok := c.a.(backend.BatchRenewer); ok {
		return 2
	}
	return 1
}

// longQueueIsServed renews a lease while waiters arrive and leave, and then lets the lease expire. Each waiter then
// renews its own lease.
func longQueueIsServed(t *trial) {
	defer t.watchStore()()
	c := &crowd{trial: t, g: t.acquire(t.a, t.key, t.long())}
	c.arrive(t.longQueue())
	// A renewal to a shorter TTL reaches the store. The next renewal, of the other kind, must reach it too, or the key
	// would become free.
	brief := t.passing()
	for range c.kinds() {
		c.renews(brief)
		c.renews(t.long())
		t.outlast(t.lastRefusal(time.Now(), brief))
		c.renews(t.long()) // an odd number of renewals, so that the next round begins with the other kind
		t.heldBy(c.g)
	}
	for _, w := range c.waits {
		w.stillWaits(t, c.g, t.rule)
	}
	c.leave()
	// The last renewal is to a short TTL. The key becomes free by that TTL, and a waiter gets it.
	c.renews(t.short())
	for n := len(c.waits); n > 0; n-- {
		c.next()
	}
	t.becomesFree(t.b, t.key, t.handOff(), "after the last waiter's release")
}

// arrive starts n waiters, one after the other if the store keeps their order.
func (c *crowd) arrive(n int) {
	ttls := []time.Duration{c.long(), c.long()/2 + 1, 2 * c.long(), c.long() + time.Second - 1, c.long() / 3,
		c.long() * 3 / 2}
	for i := range n {
		ttl := ttls[i%len(ttls)]
		c.ttls = append(c.ttls, ttl)
		c.waits = append(c.waits, c.wait(c.client(i/2+1), c.key, ttl))
		if c.trial.g.FIFO {
			c.arrived(c.key, i+1)
		}
		if i%5 == 4 {
			c.renews(ttls[i/5%len(ttls)])
			c.refused(c.b, c.g)
		}
	}
	c.arrived(c.key, n)
}

// renews renews the holder's lease, alternately alone and in a batch, and fails unless the renewal takes effect.
func (c *crowd) renews(ttl time.Duration) {
	renew, what := c.renew, "Renew with a queue"
	if c.batch {
		renew, what = c.renewInBatch, "RenewBatch with a queue"
	}
	c.batch = !c.batch && c.kinds() > 1
	before := time.Now()
	renew(c.g, ttl)
	c.keeps(c.g, ttl, before, time.Now(), what)
	c.g.ttl, c.g.before, c.g.after = ttl, before, time.Now()
}

// leave cancels some of the waiters.
func (c *crowd) leave() {
	for i := len(c.waits) - 3; i > 0; i -= 7 {
		c.waits[i].cancelAndFail(c.trial)
		c.waits, c.ttls = slices.Delete(c.waits, i, i+1), slices.Delete(c.ttls, i, i+1)
		c.queueAtMost(len(c.waits))
	}
}

// next waits until the next waiter is granted the key for its own TTL, and then renews and releases that lease.
func (c *crowd) next() {
	last := c.g.Deadline()
	turn := c.firstOf(c.waits, time.Until(last)+c.handOff(), "after the holder's end")
	w, ttl := c.waits[turn], c.ttls[turn]
	if turn > 0 && c.trial.g.FIFO {
		c.notInTime(c.rule, "waiter %d had its turn before %d that had come before it", turn+1, turn)
	}
	if early := last.Sub(w.grant.after); early > 0 && c.g.live(w.grant.after) && c.g.ttl == c.short() {
		c.doubleGrant("a waiter was granted the key %v before the holder's deadline", early)
	}
	if d := w.grant.Deadline(); d.After(backend.Deadline(w.grant.after, c.trial.g.Round(ttl))) && c.kept(ttl) == ttl {
		c.fatalf("a waiter that requested %v has a deadline %v away", ttl, time.Until(d))
	}
	c.remains(w.grant, ttl, "Acquire that waits")
	c.g = w.grant
	c.waits, c.ttls = slices.Delete(c.waits, turn, turn+1), slices.Delete(c.ttls, turn, turn+1)
	c.renews(c.long())
	c.release(c.g)
	c.g.ttl = 0
}
