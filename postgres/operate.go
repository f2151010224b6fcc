package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/anylock/lock/backend"
)

// Break implements [backend.Breaker]. It ends the holder's session, which takes the same role, or one with pg_signal_backend. A lease that
// shares its connection with others (lock_share) is ErrUnsupported, because they would end too.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.call(ctx, backend.ValidateKey(key), func() error {
		return b.breakLease(ctx, hashOf(b.options.Namespace, key), owner)
	})
}

func (b *Backend) breakLease(ctx context.Context, h hash, owner string) error {
	for {
		rows, err := b.query(ctx, inspectSQL, h.texts()...)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(rows, func(row []string) bool {
			holder, ours := holderOf(row, h)
			return row[0] == "t" && ours && holder.Owner == owner
		})
		if i < 0 {
			return backend.ErrLost
		}
		label := rows[i][2]
		if entriesOf(label) > 1 {
			return fmt.Errorf("%w: the lease shares its connection with %d others", backend.ErrUnsupported, entriesOf(label)-1)
		}
		ended, err := b.query(ctx, breakSQL, append(h.texts(), label)...)
		if err != nil || len(ended) > 0 {
			return err
		}
		// The session has said something else since, as in a renewal.
	}
}
