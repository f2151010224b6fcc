package redis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

// Acquire implements [backend.Backend]. A TTL over MaxTTL is ErrInvalid. A request that waits also waits for nodes to get
// their vote.
func (r *Redlock) Acquire(ctx context.Context, q backend.Request) (backend.Lease, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	ttl, err := r.round(q.TTL)
	if err != nil {
		return nil, err
	}
	if err := r.begin(ctx, nil); err != nil {
		return nil, err
	}
	defer r.calls.End()
	if !q.Wait {
		return r.try(ctx, q, ttl)
	}
	return r.wait(ctx, q, ttl)
}

// doubt is for how long an attempt is made again that was refused by a minority while others did not count.
const doubt = time.Second

// try makes one attempt, and others while it is in doubt whether the key is held: a minority may name an owner that has
// released the key, whose last traces are being removed.
func (r *Redlock) try(ctx context.Context, q backend.Request, ttl time.Duration) (backend.Lease, error) {
	for begun := time.Now(); ; {
		l, doubtful, err := r.elect(ctx, q, ttl)
		if !doubtful || time.Since(begun) >= doubt {
			return l, err
		}
		if backend.Sleep(ctx, redlockPause+rand.N(redlockPause)) != nil {
			return nil, backend.ContextError(ctx, err)
		}
	}
}

// elect makes one attempt, and clears up if it fails. doubtful tells that the next one may succeed.
func (r *Redlock) elect(ctx context.Context, q backend.Request, ttl time.Duration) (_ backend.Lease, doubtful bool, err error) {
	c := r.newClaim(q, ttl)
	e := r.newElection(c)
	r.ask(ctx, e.t, e.window, e.ask)
	err = e.outcome()
	if ended := backend.ContextError(ctx, err); ended != nil {
		err = ended
	}
	if err == nil {
		c.token, err = e.agree(ctx)
	}
	if err != nil {
		r.clear(ctx, c)
		return nil, e.doubtful && ctx.Err() == nil, err
	}
	l, err := r.leases.Grant(ctx, q, backend.Grant{Token: c.token, Sent: e.sent, TTL: c.ttl, Data: c})
	if err != nil {
		return nil, false, err
	}
	return l, false, nil
}

// clear gives a claim up and removes it. It returns when the nodes that granted the key have removed
// it, unless they hang, so that the next attempt finds nothing of this one; or when ctx ends.
func (r *Redlock) clear(ctx context.Context, c *claim) {
	limit := nodeTimeout(c.ttl)
	r.removeAll(ctx, r.newRollCall(), c, window{node: limit, outage: limit}, func(removal) {})
}

// removeAll gives a claim up and removes it from all nodes, and tells said what each answers. What is not answered in time is seen to in
// the background.
func (r *Redlock) removeAll(ctx context.Context, t *tally, c *claim, w window, said func(removal)) {
	c.finish()
	r.ask(ctx, t, w, func(i int, enter entry) {
		c.remove(r, i, true, func(what removal, err error) { enter(told(err), func() { said(what) }, err) })
	})
	for i, in := range t.in {
		if !in {
			r.owe(i, c)
		}
	}
}

// abandon gives a claim up and removes, in the background, whatever it has or may yet get.
func (r *Redlock) abandon(c *claim) {
	c.finish()
	for i := range r.nodes {
		c.remove(r, i, false, func(removal, error) {})
	}
}
