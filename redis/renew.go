package redis

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// minRenewLimit is the shortest time limit of a renewal; a short lease's deadline may be sooner.
const minRenewLimit = 250 * time.Millisecond

// RenewLease implements [kit.Requests].
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	// If the connection hangs, this renewal fails early enough for another.
	timeout := min(q.b.options.Timeout, max(ttl/3, minRenewLimit))
	return ttl, q.b.renew(ctx, timeout, q.b.attempts, []*kit.Life{l}, []time.Duration{ttl})[0]
}

// RenewBatch implements [backend.BatchRenewer]. One script renews up to 64 leases to one TTL, and scripts share
// pipelines. In a cluster, each script covers the leases of one slot.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	send := func(ctx context.Context, leases []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
		const attempts = 2
		return ttls, b.renew(ctx, attempts*b.options.Timeout, attempts, leases, ttls)
	}
	return b.leases.RenewBatch(ctx, renewals, send)
}

// renew renews leases to ttls, and returns the error of each lease. It repeats the renewals that fail with a temporary
// error, within timeout.
func (b *Backend) renew(
	ctx context.Context, timeout time.Duration, attempts int, leases []*kit.Life, ttls []time.Duration,
) []error {
	end := time.Now().Add(timeout)
	errs := make([]error, len(leases))
	todo := make([]int, len(leases)) // positions in leases
	for i := range todo {
		todo[i] = i
	}
	isTemporary := func(err error) bool { return exchange.Passing(err) || isRefusedTogether(err) }
	_, _ = repeat(end, attempts, isTemporary).Do(ctx, func(bool) error {
		for _, i := range todo {
			if errs[i] != nil && outcomeOf(errs[i]) == kit.Unknown {
				leases[i].NoteUnanswered(ttls[i])
			}
		}
		b.renewOnce(ctx, end, leases, ttls, todo, errs)
		todo = slices.DeleteFunc(todo, func(i int) bool { return errs[i] == nil || !isTemporary(errs[i]) })
		if len(todo) == 0 {
			return nil
		}
		return errs[todo[0]]
	})
	return errs
}

// renewOnce sends one renewal for each lease of todo before end, and sets its error.
func (b *Backend) renewOnce(
	ctx context.Context, end time.Time, leases []*kit.Life, ttls []time.Duration, todo []int, errs []error,
) {
	scripts := b.split(leases, ttls, todo, errs)
	list := make([]exchange.Request, len(scripts))
	for k, index := range scripts {
		list[k] = b.renewRequest(end, leases, index, ttls[index[0]])
	}
	for k, r := range b.deliverAll(ctx, list) {
		replies := renewErrors(r.V, len(scripts[k]))
		for n, i := range scripts[k] {
			if errs[i] = cmp.Or(replies[n], r.Err); r.V == nil && r.Err != nil {
				errs[i] = exchange.Unavailable(ctx, r.Err)
			}
		}
	}
}

// split divides the leases of todo among scripts, by TTL and, in a cluster, by slot. It returns the positions of each
// script's leases. If a lease was refused together with others, it gets its own script: the server that has a key always
// serves a request for this key alone.
func (b *Backend) split(leases []*kit.Life, ttls []time.Duration, todo []int, errs []error) (scripts [][]int) {
	type group struct {
		slot int // 0 if slots do not matter
		ttl  time.Duration
	}
	last := make(map[group]int) // the last script of each group, as a position in scripts
	for _, i := range todo {
		g := group{ttl: ttls[i]}
		switch {
		case isRefusedTogether(errs[i]):
			g.slot = -1 - i // a group of its own, because slots are not negative
		case b.batcher == nil:
			g.slot = endpoint.Slot(leases[i].Key())
		}
		k, ok := last[g]
		if !ok || len(scripts[k]) == exchange.ScriptLeases {
			k, scripts = len(scripts), append(scripts, nil)
			last[g] = k
		}
		scripts[k] = append(scripts[k], i)
	}
	return scripts
}

// renewRequest returns the request that renews the leases of index to ttl.
func (b *Backend) renewRequest(end time.Time, leases []*kit.Life, index []int, ttl time.Duration) exchange.Request {
	keys, args := make([]string, len(index)), make([]any, len(index), len(index)+1)
	for k, i := range index {
		lease := leases[i].Data.(*leaseData)
		keys[k], args[k] = lease.names.lock, lease.value
	}
	q := renewScript.Request(keys, append(args, ttl.Milliseconds())...)
	q.Replicas, q.NeedsReplicas = b.options.MinReplicas, isRenewal
	// If the connection hangs, the request fails while there is time for another.
	q.Limit = min(b.options.Timeout, time.Until(end), max(ttl/2, minRenewLimit))
	return q
}

// isRefusedTogether reports whether a server has refused a script only because of its several keys: their slot is
// moving, or a proxy hides that the keys are on different servers.
func isRefusedTogether(err error) bool {
	return redis.HasErrorPrefix(err, "TRYAGAIN") || redis.HasErrorPrefix(err, "CROSSSLOT")
}
