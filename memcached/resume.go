package memcached

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements [backend.Resumer]. It takes three requests: one reads the token, two renew the lock.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(b.guarantees), func(ctx context.Context) (backend.Lease, error) {
		return b.resume(ctx, r)
	})
}

func (b *Backend) resume(ctx context.Context, r backend.Request) (*kit.Life, error) {
	name, ttl := lockName(r.Key), b.guarantees.Round(r.TTL)
	g, _, err := operation(ctx, b, 0, func(c *connection, _ bool) (g kit.Grant, err error) {
		stored, err := read(c, name, r.Key)
		switch {
		case err != nil:
			return g, err
		case stored == nil || stored.owner != r.Owner || stored.token == 0: // 0: the lock is just being granted
			return g, backend.ErrLost
		}
		g = kit.Grant{Token: stored.token, Sent: time.Now(), TTL: ttl}
		return g, swap(c, name, *stored, stored.encode(), expiration(ttl))
	})
	if err != nil {
		return nil, err
	}
	return b.leases.Resume(r, g)
}
