package memcached

import (
	"context"
	"errors"

	"github.com/anylock/lock/backend"
)

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		unsure, err := b.remove(ctx, record{key: key, owner: owner})
		if unsure && errors.Is(err, backend.ErrLost) { // an earlier request, which got no reply, removed the lock
			return nil
		}
		return err
	})
}
