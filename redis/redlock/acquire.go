package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

// Acquire implements [backend.Backend]. A TTL over MaxTTL is ErrInvalid. A request that waits also waits for nodes to get
// their vote.
func (r *Backend) Acquire(ctx context.Context, q backend.Request) (backend.Lease, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	ttl, err := r.round(q.TTL)
	if err != nil {
		return nil, err
	}
	if err := r.usage.Begin(ctx, nil); err != nil {
		return nil, err
	}
	defer r.usage.Calls.End()
	c := r.newClaim(q, ttl)
	if !q.Wait {
		return r.try(ctx, q, c)
	}
	return r.wait(ctx, q, c)
}

// doubt is for how long an attempt is made again that was refused by a minority while others did not count.
const doubt = time.Second

// try makes one attempt, and others while it is in doubt whether the key is held: a minority may name an owner that has
// released the key, whose last traces are being removed.
func (r *Backend) try(ctx context.Context, q backend.Request, c *claim) (backend.Lease, error) {
	for begun := time.Now(); ; {
		l, e, err := r.elect(ctx, q, c)
		if e == nil {
			return l, err
		}
		if e.doubtful && ctx.Err() == nil && time.Since(begun) < doubt {
			r.withdraw(c, e.number)
			if serr := backend.Sleep(ctx, leastPause+rand.N(leastPause)); serr == nil {
				continue
			}
			err = backend.ContextError(ctx, err)
		}
		if ctx.Err() != nil {
			r.abandon(c)
		} else {
			r.clear(ctx, c)
		}
		return nil, err
	}
}

// elect makes one attempt. If it fails, e is what the caller has to clear up, nil if Leases does.
func (r *Backend) elect(ctx context.Context, q backend.Request, c *claim) (_ backend.Lease, e *election, err error) {
	e = r.newElection(c)
	r.ask(ctx, e.t, e.window, e.ask)
	err = e.outcome()
	if ended := backend.ContextError(ctx, err); ended != nil {
		err = ended
	}
	if err == nil {
		c.token, err = e.agree(ctx)
	}
	if err != nil {
		return nil, e, err
	}
	l, err := r.leases.Grant(ctx, q, backend.Grant{Token: c.token, Sent: e.sent, TTL: c.ttl, Data: c})
	if err != nil {
		return nil, nil, err
	}
	return l, nil, nil
}

// clear is abandon for an attempt whose refusal is not urgent: it returns when the nodes that granted the key have removed
// it, unless they hang, so that the next attempt finds nothing of this one.
func (r *Backend) clear(ctx context.Context, c *claim) {
	limit := nodeTimeout(c.ttl)
	r.removeAll(ctx, r.newRollCall(), c, window{node: limit, outage: limit}, func(removal) {})
}

// removeAll gives a claim up and removes it from all nodes, and tells said what each answers. What is not answered in time is seen to in
// the background.
func (r *Backend) removeAll(ctx context.Context, t *tally, c *claim, w window, said func(removal)) {
	c.giveUp(lastNumber)
	r.ask(ctx, t, w, func(i int, enter entry) {
		c.remove(r, i, lastNumber, true, func(what removal, err error) { enter(told(err), func() { said(what) }, err) })
	})
	for i, in := range t.in {
		if !in {
			r.owe(i, c, lastNumber)
		}
	}
}

// abandon removes, in the background, whatever the claim has or may yet get.
func (r *Backend) abandon(c *claim) { r.withdraw(c, lastNumber) }

// withdraw gives up requests up to number and removes, in the background, what they have left.
func (r *Backend) withdraw(c *claim, number uint64) {
	c.giveUp(number)
	for i := range r.nodes {
		c.remove(r, i, number, false, func(removal, error) {})
	}
}
