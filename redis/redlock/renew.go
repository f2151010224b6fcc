package redlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// The replies of renew.lua for a lease.
const (
	leaseMissing = int64(0)
	leaseRenewed = int64(1)
	leaseOther   = int64(3)
	leaseUnknown = int64(-1) // not a reply of the script: the reply does not count
)

var errMissing = errors.New("it does not have the lease")

// RenewBatch implements [backend.BatchRenewer].
func (r *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return r.leases.RenewBatch(ctx, renewals, r.sendBatch)
}

// sendBatch renews leases.
func (r *Backend) sendBatch(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
	errs := make([]error, len(lives))
	var list []*renewal
	for i, l := range lives {
		list = append(list, l.Data.(*claim).newRenewal(ttls[i], &errs[i]))
	}
	r.renewAll(ctx, list)
	return ttls, errs
}

// renewAll renews leases. It repeats renewals that requests of another client of the lease have overtaken.
func (r *Backend) renewAll(ctx context.Context, list []*renewal) {
	r.renewInRounds(ctx, list)
	r.renewInRounds(ctx, repeatOvertaken(list))
}

// renewInRounds renews leases in concurrent rounds, each of up to 64 leases.
func (r *Backend) renewInRounds(ctx context.Context, list []*renewal) {
	var rounds sync.WaitGroup
	for chunk := range slices.Chunk(list, exchange.ScriptLeases) {
		rounds.Go(func() { r.renew(ctx, chunk) })
	}
	rounds.Wait()
}

// A renewal renews one lease, if a quorum still has the lease. Nodes that have lost the lease do not count, and get it
// back afterwards.
type renewal struct {
	claim     *claim
	ttl       time.Duration
	number    uint64
	sent      time.Time
	have      int    // nodes that had the lease
	lack      int    // nodes that replied that they had not
	err       *error // receives the result
	confirmed bool   // by a quorum; guarded by claim.mu
}

func (c *claim) newRenewal(ttl time.Duration, err *error) *renewal {
	return &renewal{claim: c, ttl: ttl, number: c.number.Add(1), sent: time.Now(), err: err}
}

// renew renews leases in one round, and sets the error of each.
func (r *Backend) renew(ctx context.Context, list []*renewal) {
	shortest := slices.MinFunc(list, func(a, b *renewal) int { return cmp.Compare(a.ttl, b.ttl) }).ttl
	for _, w := range list {
		w.claim.noteKept(r.options.Timeout + w.ttl)
	}
	t := r.newTally()
	t.mayEnd = func() bool {
		return t.won() && !slices.ContainsFunc(list, func(w *renewal) bool { return !t.kept(w) && !t.lost(w) })
	}
	r.runRound(ctx, t, r.windowFor(shortest), func(i int, deliver deliverFunc) { r.renewAt(i, list, deliver) })
	for _, w := range list {
		switch {
		case t.kept(w):
			r.repair(w)
		case t.lost(w):
			*w.err = backend.ErrLost
			r.abandon(w.claim) // a minority may have been renewed
		default:
			errs := t.nodeErrors()
			for i, v := range t.verdicts {
				if v == yes && w.claim.part(i).lost {
					errs[i] = errMissing
				}
			}
			*w.err = r.noQuorum(errs)
		}
	}
}

func (t *tally) kept(w *renewal) bool { return w.have >= t.quorum }
func (t *tally) lost(w *renewal) bool { return w.lack > len(t.verdicts)-t.quorum }

// renewAt renews leases at node i.
func (r *Backend) renewAt(i int, list []*renewal, deliver deliverFunc) {
	var keys []string
	var args []any
	for _, w := range list {
		keys = append(keys, w.claim.keys[0])
		args = append(args, w.claim.id, keepFor(w.ttl), w.number, w.claim.token)
	}
	n, sent := r.nodes[i], time.Now()
	n.post(renewScript.Request(keys, args...), func(v any, err error) {
		f := exchange.ReadFields(v)
		clock := clockSample{f.Number(), sent, time.Now()}
		answers := make([]int64, len(list))
		for k := range answers {
			answers[k] = f.Number()
		}
		if err == nil {
			err = f.Err()
		}
		if err != nil {
			deliver(nil, err)
			return
		}
		n.observe(clock, r.ban) // a key that still exists counts, whatever the clock did before
		for k, w := range list {
			answers[k] = r.noteAnswer(i, w, answers[k])
		}
		deliver(func() {
			for k, w := range list {
				switch answers[k] {
				case leaseRenewed:
					w.have++
				case leaseMissing, leaseOther:
					w.lack++
				}
			}
		}, nil)
	})
}

// noteAnswer records node i's answer to a renewal, and returns the answer that counts. If a quorum has already
// confirmed the renewal, a node that has lost the lease gets it back at once. Otherwise it does when a quorum has.
func (r *Backend) noteAnswer(i int, w *renewal, answer int64) int64 {
	c := w.claim
	c.continueFrom(answer)
	c.mu.Lock()
	p := &c.at[i]
	if answer == leaseMissing && len(p.requests) > 0 {
		answer = leaseUnknown // the request that writes the key to this node may still be in progress
	}
	late := answer == leaseMissing && w.confirmed
	p.lost = answer == leaseMissing && !late
	c.mu.Unlock()
	if late {
		r.repairAt(i, w)
	}
	return answer
}

// repair puts a renewed lease back, in the background, on the nodes that had lost it. The lease counts there only from
// the next renewal on, because counting it at once would revive a lease that has expired.
func (r *Backend) repair(w *renewal) {
	c := w.claim
	var nodes []int
	c.mu.Lock()
	w.confirmed = true
	for i := range c.at {
		if c.at[i].lost {
			c.at[i].lost = false
			nodes = append(nodes, i)
		}
	}
	c.mu.Unlock()
	for _, i := range nodes {
		r.repairAt(i, w) // if it fails, the next renewal detects the loss again
	}
}

func (r *Backend) repairAt(i int, w *renewal) {
	c, n := w.claim, r.nodes[i]
	c.write(n, i, w.number, func(ended func(bool, error)) {
		ttl := time.Until(backend.Deadline(w.sent, w.ttl))
		if ttl <= 0 { // the process stood still; a Resume could revive the lease
			ended(false, errNotSent)
			return
		}
		n.postBool(repairScript.Request(c.keys[:2], c.id, keepFor(ttl), w.number, c.token), ended)
	}, func(error) {})
}
