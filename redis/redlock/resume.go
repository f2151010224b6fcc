package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements [backend.Resumer]. It takes two round trips: one reads the owner's id at the nodes, the token and
// the number of the last request; the other is a renewal. If the nodes that reply do not agree on the token, the error
// is ErrUnavailable; they agree once the lease has been renewed.
func (r *Backend) Resume(ctx context.Context, q backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, r.leases, q.ValidateFor(r.guarantees), func(ctx context.Context) (backend.Lease, error) {
		return r.resume(ctx, q)
	})
}

func (r *Backend) resume(ctx context.Context, q backend.Request) (*kit.Life, error) {
	c, err := r.heldClaim(ctx, q)
	if err != nil {
		return nil, err
	}
	w := c.newRenewal(c.ttl, &err)
	r.renewAll(ctx, []*renewal{w})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	for i := range c.at {
		c.at[i].mayHaveKey = true
	}
	c.mu.Unlock()
	return r.leases.Resume(q, kit.Grant{Token: c.token, Sent: w.sent, TTL: c.ttl, Data: c})
}

// heldClaim returns the claim of the lease that q's owner holds. Until the lease has been renewed, the claim removes
// nothing from any node.
func (r *Backend) heldClaim(ctx context.Context, q backend.Request) (*claim, error) {
	h, number, err := r.holder(ctx, q.Key, false)
	switch {
	case err != nil:
		return nil, err
	case !h.Held() || ownerOf(h.Owner) != q.Owner:
		return nil, backend.ErrLost
	case h.Token == 0:
		return nil, fmt.Errorf("%w: the nodes that answer do not agree on the token of the lease", backend.ErrUnavailable)
	}
	c := r.claimOf(q.Key, h.Owner, r.guarantees.Round(q.TTL))
	c.token = h.Token
	c.number.Store(number)
	c.noteKept(r.options.MaxTTL) // whatever TTL the lease has had
	return c, nil
}

// Two clients of one lease number their requests independently. If the number of a request is lower than the last, a
// node ignores the request and returns the last number. The client continues from that number.

// continueFrom handles a node's reply to a renewal. If the node ignored the renewal, the claim continues from the
// number in the reply.
func (c *claim) continueFrom(answer int64) {
	if answer >= 0 {
		return
	}
	for last, old := uint64(-answer), c.number.Load(); old < last && !c.number.CompareAndSwap(old, last); {
		old = c.number.Load()
	}
}

// repeatOvertaken returns repetitions, with higher numbers, of the renewals in list that failed because nodes ignored
// them.
func repeatOvertaken(list []*renewal) (again []*renewal) {
	for _, w := range list {
		if *w.err == nil || errors.Is(*w.err, backend.ErrLost) || w.claim.number.Load() <= w.number {
			continue
		}
		again = append(again, w.claim.newRenewal(w.ttl, w.err))
	}
	return again
}
