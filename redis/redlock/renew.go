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

// The answers of renew.lua for a lease. Negative answers are numbers of later requests.
const (
	leaseRenewed = int64(1)
	leaseMissing = int64(2)
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

// renewAll renews leases, in concurrent rounds of up to 64. It repeats, once, renewals that requests of another client of
// the lease have overtaken.
func (r *Backend) renewAll(ctx context.Context, list []*renewal) {
	for range 2 {
		var rounds sync.WaitGroup
		for chunk := range slices.Chunk(list, exchange.ScriptLeases) {
			rounds.Go(func() { r.renew(ctx, chunk) })
		}
		rounds.Wait()
		list = repeatOvertaken(list)
	}
}

// A renewal renews one lease, if a quorum still has the lease. Nodes that have lost the lease do not count, and get it
// back afterwards.
type renewal struct {
	claim  *claim
	ttl    time.Duration
	number uint64
	sent   time.Time
	err    *error // receives the result

	// Guarded by claim.mu.
	answers   []int64 // by node; 0 for a node that has not replied
	confirmed bool    // by a quorum
}

func (c *claim) newRenewal(ttl time.Duration, err *error) *renewal {
	return &renewal{
		claim: c, ttl: ttl, number: c.number.Add(1), sent: time.Now(), err: err, answers: make([]int64, len(c.at)),
	}
}

// count returns how many nodes had the lease, and which replied that they had not.
func (w *renewal) count() (have int, lack []int) {
	w.claim.mu.Lock()
	defer w.claim.mu.Unlock()
	for i, answer := range w.answers {
		switch answer {
		case leaseRenewed:
			have++
		case leaseMissing:
			lack = append(lack, i)
		}
	}
	return have, lack
}

// renew renews leases in one round, and sets the error of each.
func (r *Backend) renew(ctx context.Context, list []*renewal) {
	shortest := slices.MinFunc(list, func(a, b *renewal) int { return cmp.Compare(a.ttl, b.ttl) }).ttl
	for _, w := range list {
		w.claim.noteKept(r.options.Timeout + w.ttl)
	}
	t := r.newTally()
	undecided := func(w *renewal) bool {
		have, lack := w.count()
		return max(have, len(lack)) < t.quorum
	}
	t.mayEnd = func() bool { return !slices.ContainsFunc(list, undecided) }
	r.runRound(ctx, t, r.windowFor(shortest), func(i int, deliver deliverFunc) { r.renewAt(i, list, deliver) })
	for _, w := range list {
		switch have, lack := w.count(); {
		case have >= t.quorum:
			*w.err = nil // a repeated renewal had an error
			r.repair(w)
		case len(lack) >= t.quorum:
			*w.err = backend.ErrLost
			r.abandon(w.claim) // a minority may have been renewed
		default:
			errs := t.nodeErrors()
			for _, i := range lack {
				errs[i] = errMissing
			}
			*w.err = r.noQuorum(errs)
		}
	}
}

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
		if err == nil {
			r.observe(n, clock) // a key that still exists counts, whatever the clock did before
			for k, w := range list {
				r.noteAnswer(i, w, answers[k])
			}
		}
		deliver(nil, err)
	})
}

// noteAnswer records node i's answer to a renewal. If a quorum has already confirmed the renewal, a node that has lost
// the lease gets it back at once. Otherwise it does when a quorum has.
func (r *Backend) noteAnswer(i int, w *renewal, answer int64) {
	c := w.claim
	c.continueFrom(answer)
	c.mu.Lock()
	w.answers[i] = answer
	late := answer == leaseMissing && w.confirmed
	c.mu.Unlock()
	if late {
		r.repairAt(i, w)
	}
}

// repair puts a renewed lease back, in the background, on the nodes that had lost it. The lease counts there only from
// the next renewal on, because counting it at once would revive a lease that has expired.
func (r *Backend) repair(w *renewal) {
	w.claim.mu.Lock()
	w.confirmed = true
	w.claim.mu.Unlock()
	_, lack := w.count() // a node that replies just now may get the lease twice
	for _, i := range lack {
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
