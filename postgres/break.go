package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Break implements [backend.Breaker]. It terminates the holder's session. The server permits this to the same role and
// to members of pg_signal_backend. If the holder releases the lease while Break runs, its client may use the session
// for another lease by the time the session ends: then that lease is lost, and its holder is notified. If the holder's
// label is not visible (see Inspect), Break cannot know the owner, and returns ErrUnsupported.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		h := hashOf(key)
		for range 10 { // a session may change its label and its lock while the server reads both
			found, err := b.terminate(ctx, breakSQL, h.text(), " "+labelEntry(h, owner)+labelEnd)
			if err != nil || found {
				return err
			}
			if _, certain, err := b.inspect(ctx, h); err != nil || certain {
				return cmp.Or(err, backend.ErrLost)
			}
			_ = kit.Sleep(ctx, 2*time.Millisecond)
		}
		return unsupportedError("the holder's session, of another role or another program, shows no owner")
	})
}
