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
	_, unanswered, err := ask(ctx, b, 0, func(c *lane, _ bool) (struct{}, error) {
		return struct{}{}, swap(c, b.naming.lock(key), record{key: key, owner: owner}, nil, gone)
	})
	if unanswered && errors.Is(err, backend.ErrLost) { // an attempt without an answer may have done it
		return nil
	}
	return err
}
