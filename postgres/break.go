package postgres

import (
	"context"

	"github.com/anylock/lock/backend"
)

// Break implements [backend.Breaker]. It terminates the holder's session. The server permits this to the same role and
// to members of pg_signal_backend.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		h := hashOf(key)
		found, err := b.terminate(ctx, breakSQL, h.text(), " "+labelEntry(h, owner)+labelEnd)
		if err == nil && !found {
			err = backend.ErrLost
		}
		return err
	})
}
