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

// A renewal is that of one lease in a batch.
type renewal struct {
	life *kit.Life
	ttl  time.Duration
	err  error // of the last attempt
}

// renew renews leases to ttls, and returns the error of each lease. It repeats the renewals that fail with a temporary
// error, within timeout.
func (b *Backend) renew(
	ctx context.Context, timeout time.Duration, attempts int, leases []*kit.Life, ttls []time.Duration,
) []error {
	end := time.Now().Add(timeout)
	all, todo := make([]renewal, len(leases)), make([]*renewal, len(leases))
	for i := range all {
		all[i] = renewal{life: leases[i], ttl: ttls[i]}
		todo[i] = &all[i]
	}
	isTemporary := func(err error) bool { return exchange.Passing(err) || isRefusedTogether(err) }
	repeat := kit.Repeat{
		Timeout: timeout, Attempts: attempts, Pause: repeatPause,
		Classify: func(err error) (kit.Outcome, bool) {
			return outcomeOf(err), isTemporary(err) && time.Now().Before(end)
		},
	}
	_, _ = repeat.Do(ctx, func(bool) error {
		for _, r := range todo {
			if r.err != nil && outcomeOf(r.err) == kit.Unknown {
				r.life.NoteUnanswered(r.ttl)
			}
		}
		b.renewOnce(ctx, end, todo)
		todo = slices.DeleteFunc(todo, func(r *renewal) bool { return r.err == nil || !isTemporary(r.err) })
		if len(todo) == 0 {
			return nil
		}
		return todo[0].err
	})
	errs := make([]error, len(all))
	for i, r := range all {
		errs[i] = r.err
	}
	return errs
}

// renewOnce makes one attempt at each renewal, and sets its error.
func (b *Backend) renewOnce(ctx context.Context, end time.Time, todo []*renewal) {
	scripts := b.split(todo)
	list := make([]exchange.Request, len(scripts))
	for i, script := range scripts {
		list[i] = b.renewRequest(end, script)
	}
	for i, result := range b.deliverAll(ctx, list) {
		errs := renewErrors(result, len(scripts[i]))
		for k, r := range scripts[i] {
			r.err = exchange.Unavailable(ctx, errs[k])
		}
	}
}

// split divides renewals among scripts, by TTL and, in a cluster, by slot. A lease that was refused together with others
// gets its own script: the server that has a key always serves a request for this key alone.
func (b *Backend) split(todo []*renewal) (scripts [][]*renewal) {
	type group struct {
		slot  int // 0 if slots do not matter
		ttl   time.Duration
		alone *renewal // nil unless the renewal needs its own script
	}
	last := make(map[group]int) // the last script of each group, as an index of scripts
	for _, r := range todo {
		g := group{ttl: r.ttl}
		if b.batcher == nil {
			g.slot = endpoint.Slot(r.life.Key())
		}
		if isRefusedTogether(r.err) {
			g.alone = r
		}
		i, ok := last[g]
		if !ok || len(scripts[i]) == exchange.ScriptLeases {
			i, scripts = len(scripts), append(scripts, nil)
			last[g] = i
		}
		scripts[i] = append(scripts[i], r)
	}
	return scripts
}

// renewRequest returns the request of a script.
func (b *Backend) renewRequest(end time.Time, script []*renewal) exchange.Request {
	keys, args := make([]string, len(script)), make([]any, len(script), len(script)+1)
	for i, r := range script {
		lease := r.life.Data.(*leaseData)
		keys[i], args[i] = lease.names.lock, lease.value
	}
	ttl := script[0].ttl
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
