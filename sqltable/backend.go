package sqltable

import (
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Guarantees returns the guarantees of a table in a database of dialect d.
func Guarantees(d Dialect) backend.Guarantees {
	g := backend.Guarantees{
		// On a slow disk, a shorter lease would expire before its holder receives the answer.
		MinTTL:      100 * time.Millisecond,
		Granularity: time.Microsecond,
		EarlyLoss: "a step forward of the database server's wall clock, loss of the database's last commits, " +
			"as in a failover to an asynchronous standby",
		EnforcedBy:  "wall clock of the database server",
		Fencing:     backend.FencingLoss,
		Wake:        backend.WakePoll,
		Consistency: backend.BestEffort,
		Reach:       backend.ReachNetwork,
	}
	if d == SQLite {
		g.EarlyLoss = "a step forward of the host's wall clock, loss of the database file"
		g.EnforcedBy = "wall clock of the host"
		g.Reach = backend.ReachHost
		// The clock has a resolution of 1 ms: if a row is lost, the next row may get the same token.
		g.Fencing = backend.FencingRestart
	}
	return g
}

// A Backend keeps locks in a table. It is a [backend.Backend].
type Backend struct {
	db         *sql.DB
	dialect    Dialect
	options    Options
	statements statements
	leases     *kit.Leases
	nextPurge  atomic.Int64 // in nanoseconds since 1970
}

func newBackend(db *sql.DB, d Dialect, o Options) *Backend {
	b := &Backend{db: db, dialect: d, options: o, statements: newStatements(d, o.Table)}
	b.leases = kit.NewLeases(b, o.Timeout)
	return b
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return Guarantees(b.dialect) }

// Close implements [backend.Backend]. The database stays open unless Options.CloseDB is set.
func (b *Backend) Close() error {
	if !b.leases.Close() || !b.options.CloseDB {
		return nil
	}
	defer b.leases.Drain()
	return b.db.Close()
}
