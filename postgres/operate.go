package postgres

import (
	"context"
	"fmt"

	"github.com/anylock/lock/backend"
)

// Break implements [backend.Breaker]. It ends the holder's session, which takes the same role, or one with pg_signal_backend. A lease that
// shares its connection with others (lock_share) is ErrUnsupported, because they would end too.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	if err := backend.ValidateKey(key); err != nil {
		return err
	}
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer b.calls.End()
	err := b.breakLease(ctx, hashOf(b.options.Namespace, key), owner)
	return told(ctx, b.closedOr(err))
}

func (b *Backend) breakLease(ctx context.Context, h hash, owner string) error {
	rows, err := b.holdersOf(ctx, h)
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
		classid, objid := h.texts()
		var ended [][]string
		if err := b.aside(ctx, func(s *session) (err error) {
			ended, err = s.query(breakSQL, classid, objid, row[2])
			return err
		}); err != nil || len(ended) > 0 {
			return err
		}
	}
	return backend.ErrLost
}
