package postgres

import (
	"context"
	"fmt"
	"strconv"
)

// Capacity implements [backend.Capacity]: for how many more connections the server has room, by max_connections, what
// of it is reserved, and the limits of the database and the role, less those that are open.
func (b *Backend) Capacity(ctx context.Context) (leases int, err error) {
	err = b.call(ctx, nil, func(ctx context.Context) error {
		rows, err := b.query(ctx, capacitySQL)
		if err != nil {
			return err
		}
		if len(rows) != 1 {
			return fmt.Errorf("the room for connections: %d rows", len(rows))
		}
		leases, err = strconv.Atoi(rows[0][0])
		return err
	})
	return leases, err
}
