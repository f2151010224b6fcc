package redis

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// Resume implements [backend.Resumer]. It takes two round trips: one reads the lease's token from the server, the other
// renews the lease.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(b.guarantees), func(ctx context.Context) (backend.Lease, error) {
		return b.resume(ctx, r)
	})
}

func (b *Backend) resume(ctx context.Context, r backend.Request) (*kit.Life, error) {
	unsure := false // a request without a reply may still reach the server
	for {
		h, err := b.inspect(ctx, r.Key, r.Owner)
		switch {
		case err != nil:
			return nil, err
		case h.Owner != r.Owner || h.Token == 0 || h.Shared > 0 != r.Shared: // 0: the key is only reserved for this owner
			return nil, backend.ErrLost
		}
		data := &leaseData{names: b.naming.names(r.Key), value: lockValue(h.Token, r.Owner)}
		ttl, sent := b.guarantees.Round(r.TTL), time.Now()
		q := renewScript.Request([]string{data.names.lock}, data.value, ttl.Milliseconds(), h.TTL.Milliseconds())
		q.Replicas, q.NeedsReplicas = b.options.MinReplicas, isRenewal
		v, unanswered, err := b.eval(ctx, q)
		unsure = unsure || unanswered
		if err == nil && wasExtended(v) {
			continue // the lease was not resumed: read it again
		}
		if err := renewErrors(exchange.Result{V: v, Err: err}, 1)[0]; err != nil {
			return nil, err
		}
		return b.leases.Resume(r, kit.Grant{Token: h.Token, Sent: sent, TTL: ttl, Data: data, Unsure: unsure})
	}
}
