package postgres

import (
	"context"

	"github.com/anylock/lock/backend"
)

// Break implements [backend.Breaker]. It terminates the holder's session. The server permits this to the same role and
// to members of pg_signal_backend. If the holder releases the lease while Break runs, its client may use the session
// for another lease by the time the session ends: then that lease is lost, and its holder is notified.
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
