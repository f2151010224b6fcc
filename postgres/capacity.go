package postgres

import (
	"context"
	"strconv"
)

// Capacity implements [backend.Capacity]. It returns how many more connections the server accepts, but at least 1. The
// limits are max_connections minus the reserved connections, and the connection limits of the database and of the role,
// each minus the open connections.
func (b *Backend) Capacity(ctx context.Context) (leases int, err error) {
	err = b.call(ctx, nil, func(ctx context.Context) error {
		row, err := firstRow(b.query(ctx, capacitySQL))
		if err != nil {
			return err
		}
		leases, err = strconv.Atoi(row[0])
		return err
	})
	return leases, err
}
