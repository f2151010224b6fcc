package memcached

import (
	"context"

	"github.com/anylock/lock/backend"
)

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		return b.remove(ctx, record{key: key, owner: owner})
	})
}
