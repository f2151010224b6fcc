package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// RenewBatch implements [backend.BatchRenewer]: leases are renewed by the dozen in one script, and scripts
// travel together. In a cluster a script covers the leases of one slot.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.sendBatch)
}

// A share is the part of a batch that one script renews.
type share struct {
	index    []int // of its leases in the batch
	renewals []*renewal
	ttl      time.Duration // the shortest
}

func (b *Backend) sendBatch(ctx context.Context, lives []*backend.Life, ttls []time.Duration) ([]time.Duration, []error) {
	errs := make([]error, len(lives))
	todo := make([]int, len(lives))
	for i := range todo {
		todo[i] = i
	}
	// A second round for what has failed in a way that passes.
	for range 2 {
		b.sendShares(ctx, b.shares(lives, ttls, todo, errs), errs)
		var failed []int
		for _, i := range todo {
			if errs[i] != nil && ctx.Err() == nil && (exchange.Passing(errs[i]) || isCrossSlot(errs[i])) {
				failed = append(failed, i)
			}
		}
		if todo = failed; len(todo) == 0 {
			break
		}
	}
	return ttls, errs
}

// shares cuts the leases of todo into scripts. What a slot that is moving has refused goes by itself: one key is always served, by
// the server that has it.
func (b *Backend) shares(lives []*backend.Life, ttls []time.Duration, todo []int, errs []error) []*share {
	_, single := b.client.(*redis.Client)
	bySlot := !single || b.crossSlot.Load()
	var list []*share
	open := make(map[int]*share) // by slot; all in 0 if slots do not matter
	for _, i := range todo {
		r, s := renewalOf(lives[i], ttls[i]), 0
		if bySlot {
			s = endpoint.Slot(lives[i].Key())
		}
		if errs[i] != nil && redis.HasErrorPrefix(errs[i], "TRYAGAIN") {
			s = -1 - i // no slot
		}
		sh := open[s]
		if sh == nil || len(sh.index) == exchange.ScriptLeases {
			sh = &share{ttl: backend.MaxTTL}
			open[s] = sh
			list = append(list, sh)
		}
		sh.index = append(sh.index, i)
		sh.renewals = append(sh.renewals, r)
		sh.ttl = min(sh.ttl, ttls[i])
	}
	return list
}

// sendShares sends each share's script, and enters the error of each lease.
func (b *Backend) sendShares(ctx context.Context, shares []*share, errs []error) {
	list := make([]exchange.Request, len(shares))
	for i, sh := range shares {
		// On a connection that hangs it fails while there is time for another attempt.
		list[i] = b.renewalRequest(sh.renewals, min(b.options.Timeout, max(sh.ttl/2, leastLimit)))
	}
	for i, r := range b.deliverAll(ctx, list) {
		sh := shares[i]
		if isCrossSlot(r.Err) {
			b.crossSlot.Store(true)
		}
		if r.V == nil && r.Err != nil {
			for _, lease := range sh.index {
				errs[lease] = exchange.Unavailable(r.Err)
			}
			continue
		}
		renewAnswers(r.V, len(sh.index), func(k int, err error) {
			if err == nil {
				err = r.Err // too few replicas have it
			}
			errs[sh.index[k]] = err
		})
	}
}

func isCrossSlot(err error) bool { return redis.HasErrorPrefix(err, "CROSSSLOT") }
