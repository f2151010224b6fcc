package postgres

import (
	"context"
	"fmt"

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
	rows, err := b.query(ctx, inspectSQL, h.texts()...)
	if err != nil {
		return err
	}
	for _, row := range rows {
		holder, ours := holderOf(row, h)
		if row[0] != "t" || !ours || holder.Owner != owner {
			continue
		}
		if label := row[2]; entriesOf(label) > 1 {
			return fmt.Errorf("%w: the lease shares its connection with %d others", backend.ErrUnsupported, entriesOf(label)-1)
		}
		ended, err := b.query(ctx, breakSQL, append(h.texts(), row[2])...)
		if err != nil || len(ended) > 0 {
			return err
		}
	}
	return backend.ErrLost
}
