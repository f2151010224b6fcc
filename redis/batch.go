package redis

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// RenewBatch implements [backend.BatchRenewer]. One script renews up to 64 leases to one TTL, and scripts share
// pipelines. In a cluster, each script covers the leases of one slot.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.sendBatch)
}

// A scriptBatch is the part of a batch that one script renews.
type scriptBatch struct {
	index  []int // positions of the leases in the batch
	leases []*leaseData
	shared bool
	ttl    time.Duration
}

func (b *Backend) sendBatch(
	ctx context.Context, leases []*kit.Life, ttls []time.Duration,
) ([]time.Duration, []error) {
	errs := make([]error, len(leases))
	todo := make([]int, len(leases))
	for i := range todo {
		todo[i] = i
	}
	b.sendScripts(ctx, b.split(leases, ttls, todo, errs), errs)
	// A second round repeats renewals with temporary errors.
	todo = slices.DeleteFunc(todo, func(i int) bool {
		err := errs[i]
		return err == nil || ctx.Err() != nil || !exchange.Passing(err) && !isRefusedTogether(err)
	})
	for _, i := range todo {
		if outcomeOf(errs[i]) == kit.Unknown {
			leases[i].NoteUnanswered(ttls[i])
		}
	}
	b.sendScripts(ctx, b.split(leases, ttls, todo, errs), errs)
	return ttls, errs
}

// split divides the leases of todo among scripts, by mode, TTL and, in a cluster, slot. If a lease was refused together
// with others, it gets its own script: the server that has a key always serves a request for this key alone.
func (b *Backend) split(leases []*kit.Life, ttls []time.Duration, todo []int, errs []error) []*scriptBatch {
	_, single := b.client.(*redis.Client)
	var list []*scriptBatch
	type group struct {
		slot   int // 0 if slots do not matter
		shared bool
		ttl    time.Duration
	}
	open := make(map[group]*scriptBatch)
	for _, i := range todo {
		slot := 0
		if !single {
			slot = endpoint.Slot(leases[i].Key())
		}
		if isRefusedTogether(errs[i]) {
			slot = -1 - i // a group of its own, because slots are not negative
		}
		g := group{slot, leases[i].Shared(), ttls[i]}
		s := open[g]
		if s == nil || len(s.index) == exchange.ScriptLeases {
			s = &scriptBatch{shared: g.shared, ttl: g.ttl}
			open[g] = s
			list = append(list, s)
		}
		s.index = append(s.index, i)
		s.leases = append(s.leases, leases[i].Data.(*leaseData))
	}
	return list
}

// sendScripts sends scripts, and stores the error of each lease in errs.
func (b *Backend) sendScripts(ctx context.Context, scripts []*scriptBatch, errs []error) {
	list := make([]exchange.Request, len(scripts))
	for i, s := range scripts {
		// If the connection hangs, a renewal fails while there is time for another.
		list[i] = b.renewRequest(s.leases, s.shared, s.ttl, min(b.options.Timeout, max(s.ttl/2, minRenewLimit)))
	}
	for i, r := range b.deliverAll(ctx, list) {
		s := scripts[i]
		if r.V == nil && r.Err != nil {
			for _, lease := range s.index {
				errs[lease] = exchange.Unavailable(r.Err)
			}
			continue
		}
		for k, err := range renewErrors(r.V, len(s.index)) {
			if err == nil {
				err = r.Err // too few replicas have the renewal
			}
			errs[s.index[k]] = err
		}
	}
}

// isRefusedTogether reports whether a server has refused a script only because of its several keys: their slot is
// moving, or a proxy hides that the keys are on different servers.
func isRefusedTogether(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "TRYAGAIN") || redis.HasErrorPrefix(err, "CROSSSLOT"))
}
