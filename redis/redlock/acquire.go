package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Acquire implements [backend.Backend]. A TTL over MaxTTL is ErrInvalid. A request that waits also waits for nodes to
// get their vote.
func (r *Backend) Acquire(ctx context.Context, q backend.Request) (backend.Lease, error) {
	c := r.newClaim(q, r.guarantees.Round(q.TTL))
	try := func(ctx context.Context) (backend.Lease, error) { return r.try(ctx, q, c) }
	if q.Wait {
		try = r.newWaiter(q, c).try
	}
	return r.leases.Acquire(ctx, q, kit.Waiter{
		Try: try, CleanUp: func() {}, // a failed attempt removes its own traces
		Pause: kit.Pause{Min: leastPause, Max: mostPause},
	})
}

// try makes one attempt. If the attempt cannot show whether the key is held, try makes more attempts for up to
// Options.Timeout: a minority of the nodes may still name an owner that has released the key.
func (r *Backend) try(ctx context.Context, q backend.Request, c *claim) (backend.Lease, error) {
	for begun := time.Now(); ; {
		l, uncertain, err := r.elect(ctx, q, c)
		if err == nil {
			return l, nil
		}
		if uncertain && time.Since(begun) < r.options.Timeout && kit.Sleep(ctx, leastPause+rand.N(leastPause)) == nil {
			continue
		}
		if ended := kit.ContextError(ctx, err); ended != nil {
			return nil, ended
		}
		// The next attempt must not find the key of this one on any node, unless the node hangs.
		limit := nodeTimeout(c.ttl)
		r.removeAll(ctx, r.newTally(), c, window{node: limit, outage: limit}, func() {})
		return nil, err
	}
}

// elect makes one attempt, and withdraws the attempt if it fails. uncertain is that of the election.
func (r *Backend) elect(ctx context.Context, q backend.Request, c *claim) (_ backend.Lease, uncertain bool, err error) {
	e := r.newElection(c)
	r.runRound(ctx, e.t, e.window, e.requestVote)
	if err = e.outcome(); err == nil {
		c.token, err = e.agreeOnToken(ctx)
	}
	if err != nil {
		r.withdraw(c, e.number)
		return nil, e.uncertain, err
	}
	l, err := r.leases.Grant(ctx, q, kit.Grant{Token: c.token, Sent: e.sent, TTL: c.ttl, Data: c})
	if err != nil {
		r.abandon(c) // Leases releases it too, but perhaps only after Close has closed the connections
		return nil, false, err
	}
	return l, false, nil
}

// removeAll cancels the unsent requests of a claim, removes the claim from all nodes, and calls removed for each node
// that had its key. Nodes that do not reply in time are cleaned up in the background.
func (r *Backend) removeAll(ctx context.Context, t *tally, c *claim, w window, removed func()) {
	c.cancelUpTo(lastNumber)
	r.runRound(ctx, t, w, func(i int, deliver deliverFunc) {
		c.remove(r, i, lastNumber, true, func(had bool, err error) {
			record := removed
			if !had {
				record = nil
			}
			deliver(record, err)
		})
	})
	for i, v := range t.verdicts {
		if v == silent {
			r.cleanUpLater(i, c, lastNumber) // do not wait for the removal to fail, so that a node that hangs is soon skipped
		}
	}
}

// abandon removes, in the background, every key that the claim has or may still get.
func (r *Backend) abandon(c *claim) { r.withdraw(c, lastNumber) }

// withdraw cancels the unsent requests up to number, and removes, in the background, the keys that requests up to
// number have written.
func (r *Backend) withdraw(c *claim, number uint64) {
	c.cancelUpTo(number)
	for i := range r.nodes {
		c.remove(r, i, number, false, func(bool, error) {})
	}
}
