package memcached

import (
	"context"
	"errors"

	"github.com/anylock/lock/backend"
)

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	if err := b.calls.Enter(ctx, b.closing.Done(), backend.ValidateKey(key)); err != nil {
		return err
	}
	defer b.calls.End()
	_, unanswered, err := operation(ctx, b, 0, func(c *connection, _ bool) (struct{}, error) {
		return struct{}{}, swap(c, lockName(key), record{key: key, owner: owner}, nil, expireNow)
	})
	if unanswered && errors.Is(err, backend.ErrLost) { // an earlier, unanswered swap may have removed the lock
		return nil
	}
	return err
}
