package redis

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// Resume implements [backend.Resumer]. It takes two round trips: the value of a lock's key has the token in front of the owner.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	h, err := b.Inspect(ctx, r.Key)
	switch {
	case err != nil:
		return nil, err
	case h.Owner != r.Owner || h.Token == 0: // 0: the key is only reserved for this owner
		return nil, backend.ErrLost
	}
	if err := b.usage.Begin(ctx, nil); err != nil {
		return nil, err
	}
	defer b.usage.Calls.End()
	data := &leaseData{lock: b.naming.names(r.Key).lock, value: lockValue(h.Token, r.Owner), grantedTTL: b.guarantees.Round(r.TTL)}
	sent := time.Now()
	v, _, err := b.eval(ctx, exchange.Request{
		Script: renewScript, Keys: []string{data.lock}, Args: []any{data.value, data.grantedTTL.Milliseconds()},
		Replicas: b.options.MinReplicas, Kept: needsReplicas, Limit: b.options.Timeout,
	})
	if err == nil {
		err = renewErrors(v, 1)[0]
	}
	if err != nil {
		return nil, err
	}
	l, err := b.leases.Resume(r, kit.Grant{Token: h.Token, Sent: sent, TTL: data.grantedTTL, Data: data})
	if err != nil {
		return nil, err
	}
	return l, nil
}
