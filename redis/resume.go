package redis

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements [backend.Resumer]. It takes two round trips: one reads the lease's token from the server, the other
// renews the lease.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(b.guarantees), func(ctx context.Context) (backend.Lease, error) {
		return b.resume(ctx, r)
	})
}

func (b *Backend) resume(ctx context.Context, r backend.Request) (*kit.Life, error) {
	h, err := b.inspect(ctx, r.Key, r.Owner)
	switch {
	case err != nil:
		return nil, err
	case h.Owner != r.Owner || h.Token == 0 || h.Shared > 0 != r.Shared: // 0: the key is only reserved for this owner
		return nil, backend.ErrLost
	}
	data := &leaseData{names: b.naming.names(r.Key), value: lockValue(h.Token, r.Owner)}
	ttl, sent := b.guarantees.Round(r.TTL), time.Now()
	unanswered, err := b.renew(ctx, data, r.Shared, ttl, b.options.Timeout)
	if err != nil {
		return nil, err
	}
	return b.leases.Resume(r, kit.Grant{Token: h.Token, Sent: sent, TTL: ttl, Data: data, Unsure: unanswered})
}
