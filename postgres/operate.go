package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Break implements [backend.Breaker]. It ends the holder's session, which takes the same role, or one with
// pg_signal_backend.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		return b.breakLease(ctx, hashOf(key), owner)
	})
}

func (b *Backend) breakLease(ctx context.Context, h hash, owner string) error {
	patience, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	pause := kit.Pause{Min: time.Millisecond, Max: 20 * time.Millisecond}
	for terminated := false; ; {
		rows, err := b.query(ctx, inspectSQL, h.texts()...)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(rows, func(row []string) bool {
			holder, ours := holderOf(row, h)
			return row[0] == "t" && ours && holder.Owner == owner
		})
		switch {
		case i < 0 && terminated:
			return nil
		case i < 0:
			return backend.ErrLost
		}
		found, err := b.query(ctx, breakSQL, append(h.texts(), rows[i][2])...)
		switch {
		case err != nil:
			return err
		case len(found) > 0 && found[0][0] != "1":
			return fmt.Errorf("%w: the holder's connection has %s locks", backend.ErrUnsupported, found[0][0])
		case len(found) > 0: // the server has signalled the session, which holds the key until it has ended
			terminated = true
		} // else it is at work, or has said something else since, as in a renewal
		if err := kit.Sleep(patience, pause.Next(0)); err != nil {
			if kit.Ended(ctx) {
				return err
			}
			return fmt.Errorf("%w: the holder's session has been at work for %v", backend.ErrUnavailable, b.options.Timeout)
		}
	}
}
