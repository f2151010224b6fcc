package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Acquire implements [backend.Backend]. A TTL over MaxTTL is ErrInvalid. A request that waits also waits for nodes to
// get their vote.
func (r *Backend) Acquire(ctx context.Context, q backend.Request) (backend.Lease, error) {
	a := r.newCandidate(q)
	return r.leases.Acquire(ctx, q, kit.Waiter{
		Try: a.try, CleanUp: a.cleanUp, Pause: kit.Pause{Min: leastPause, Max: mostPause},
	})
}

// A candidate is one Acquire.
type candidate struct {
	r     *Backend
	q     backend.Request
	c     *claim
	begun time.Time

	// Of the last attempt.
	busy      *backend.HeldError // its refusal by a quorum; nil if there was none
	uncertain bool               // so few nodes refused that the others could have granted the key if they had replied
}

func (r *Backend) newCandidate(q backend.Request) *candidate {
	return &candidate{r: r, q: q, c: r.newClaim(q, r.guarantees.Round(q.TTL)), begun: time.Now()}
}

// try makes an attempt, unless the key is still busy. It makes more attempts while they may soon end differently.
func (a *candidate) try(ctx context.Context) (backend.Lease, error) {
	if a.busy != nil && a.peek(ctx) {
		return nil, a.busy
	}
	pause := kit.Pause{Min: leastPause, Max: repeatPause}
	if !a.q.Wait {
		pause.Max = mostPause
	}
	for {
		l, err := a.elect(ctx)
		a.busy, _ = errors.AsType[*backend.HeldError](err)
		if err == nil || !a.mayRepeat(err) {
			return l, err
		}
		if kit.Sleep(ctx, pause.Next(0)) != nil {
			return nil, kit.ContextError(ctx, err)
		}
	}
}

// mayRepeat reports whether an attempt after the last one, which has failed with err, may soon end differently.
func (a *candidate) mayRepeat(err error) bool {
	waited := time.Since(a.begun)
	if !a.q.Wait {
		return a.busy != nil && a.uncertain && waited < a.r.options.Timeout
	}
	none, failed := errors.AsType[*noQuorumError](err)
	return failed && none.mayPass(waited < slowStart)
}

// cleanUp removes the keys of failed attempts, and waits for all nodes that do not hang: the next owner's attempt must
// not find a key.
func (a *candidate) cleanUp() {
	limit := nodeTimeout(a.c.ttl)
	a.r.removeAll(context.Background(), a.r.newTally(), a.c, window{node: limit, outage: limit}, func() {})
}

// elect makes one attempt, and withdraws the attempt if it fails. If the electors have not stored the same token, the
// owner chooses the greatest, and is elected again by nodes that store this token and still have its key. The deadline
// counts from the first election: once its votes have expired, another owner may have got a greater token.
func (a *candidate) elect(ctx context.Context) (backend.Lease, error) {
	r, c := a.r, a.c
	e := r.newElection(c)
	begun := e.t.begun
	err := e.run(ctx)
	token, stored := e.token()
	if err == nil && !stored {
		e = r.newElection(c)
		e.chosen = token
		err = e.run(ctx)
	}
	a.uncertain = e.t.number(no) < e.t.quorum
	if err != nil {
		r.withdraw(c, e.number)
		return nil, err
	}
	c.token = token
	l, err := r.leases.Grant(ctx, a.q, kit.Grant{Token: token, Sent: begun, TTL: c.ttl, Data: c})
	if err != nil {
		return nil, err
	}
	return l, nil
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
