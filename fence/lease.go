package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/tablesql"
)

// A Held is a lease of package sqltable, such as a *lock.Lease.
type Held interface {
	Key() string   // as the store knows it
	Owner() string // unique for each grant
	Err() error    // nil while the lease is exclusive by the clock of this process
}

// Leases is the table in which package sqltable keeps its leases, in the database of your data. Leases is a plain
// value, safe for concurrent use.
type Leases struct{ check tablesql.Statement }

// NewLeases returns the table of leases with that name, with its schema if necessary: "anylock" unless the store has
// another one.
func NewLeases(d Dialect, name string) Leases {
	if !d.Valid() || !tablesql.ValidTable(name) {
		return Leases{}
	}
	return Leases{tablesql.CheckLease(d, name)}
}

// Check returns an error that matches ErrStale unless l is still the lease on its key. If Check returns nil, nobody
// else is granted the key until tx ends, even if the lease expires first. The grant waits for the row, which tx has
// locked. So tx cannot overwrite anything that a later holder writes. Call Check first in tx, in every transaction
// under the lock, and roll back after any error.
//
// While tx is open, the lease can be neither renewed nor released. End tx within a third of the TTL: a longer
// transaction is safe, but its holder loses the lease.
//
// At the isolation levels REPEATABLE READ and SERIALIZABLE the database may fail with an error of its own: begin a new
// transaction.
func (t Leases) Check(ctx context.Context, tx *sql.Tx, l Held) error {
	if t.check.Text == "" {
		return fmt.Errorf("%w: unknown dialect, or bad name of a table", backend.ErrInvalid)
	}
	if err := l.Err(); err != nil { // a lease that was handed off inside this process has the same owner
		return fmt.Errorf("%q: %w: %w", l.Key(), errEnded, err)
	}
	var one int
	err := tx.QueryRowContext(ctx, t.check.Text, t.check.Args([]byte(l.Key()), []byte(l.Owner()))...).Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%q: %w", l.Key(), errEnded)
	case err != nil:
		return fmt.Errorf("fence: check the lease on %q: %w", l.Key(), err)
	}
	return nil
}

var errEnded = fmt.Errorf("%w: the lease has ended", ErrStale)
