package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// NewFromDB is [New] with the configuration of db, which must use the driver of pgx (package stdlib). It reads the
// configuration from one connection of db, which it returns to db at once. If all connections of db are in use,
// NewFromDB waits for one until ctx ends. For any other driver it returns ErrUnsupported, because it cannot read that
// driver's settings.
//
// The Backend opens its own connections. They do not count against the limits of db, and closing the Backend does not
// close db. The hooks of stdlib do not run on them: OptionBeforeConnect has changed only the configuration that was
// read. If a password expires, use Options.BeforeConnect.
func NewFromDB(ctx context.Context, db *sql.DB, opts *Options) (*Backend, error) {
	if _, err := opts.validate(); err != nil {
		return nil, err
	}
	if db == nil {
		return nil, fmt.Errorf("%w: nil database", backend.ErrInvalid)
	}
	config, err := configOf(ctx, db)
	if err != nil {
		return nil, err
	}
	return New(ctx, config, opts)
}

// configOf returns the configuration of a connection of db.
func configOf(ctx context.Context, db *sql.DB) (config *pgx.ConnConfig, err error) {
	conn, err := db.Conn(ctx)
	switch {
	case err != nil && kit.Ended(ctx):
		return nil, kit.ContextError(ctx, err)
	case err != nil:
		return nil, fmt.Errorf("%w: a connection of the database: %w", backend.ErrUnavailable, err)
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		outer := c
		for {
			switch typed := c.(type) {
			case interface{ Conn() *pgx.Conn }: // *stdlib.Conn, without linking stdlib
				config = typed.Conn().Config()
				return nil
			case interface{ Raw() driver.Conn }: // a driver that wraps another, as for tracing
				c = typed.Raw()
			default:
				return fmt.Errorf("%w: the database's connections are of type %T, not of the driver of pgx",
					backend.ErrUnsupported, outer)
			}
		}
	})
	return config, err
}
