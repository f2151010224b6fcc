package postgres

import (
	"context"
	"fmt"
	"strconv"
)

// Capacity implements [backend.Capacity]: for how many more connections the server has room, by max_connections, what of it
// is reserved, and the limits of the database and the role, less those that are open. It is 0 where leases share connections (Options.Share).
func (b *Backend) Capacity(ctx context.Context) (leases int, err error) {
	if b.options.Share > 0 {
		return 0, nil
	}
	if err := b.begin(ctx); err != nil {
		return 0, err
	}
	defer b.calls.End()
	err = b.aside(ctx, func(s *session) error {
		rows, err := s.query(capacitySQL)
		if err != nil {
			return err
		}
		if len(rows) != 1 {
			return fmt.Errorf("the room for connections: %d rows", len(rows))
		}
		leases, err = strconv.Atoi(rows[0][0])
		return err
	})
	return leases, told(ctx, b.closedOr(err))
}
