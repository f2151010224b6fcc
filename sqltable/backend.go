package sqltable

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/calls"
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

// New returns a Backend that keeps locks in a table of db, which must be of dialect d. It creates the table if
// necessary, and checks that the database can keep locks. Nil opts mean the defaults.
//
// Each request uses a connection of db for the length of one statement. Leases and waiters occupy none. If the
// application may use all connections of db at once, give New a *sql.DB of its own: otherwise renewals wait for a
// connection.
func New(ctx context.Context, db *sql.DB, d Dialect, opts *Options) (*Backend, error) {
	o, err := opts.validate(d)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, fmt.Errorf("%w: no database", backend.ErrInvalid)
	}
	b := newBackend(db, d, o)
	if err := b.leases.Call(ctx, nil, b.open); err != nil {
		b.options.CloseDB = false // the database stays the caller's
		calls.CloseUnopened(ctx, b)
		return nil, err
	}
	return b, nil
}

func newBackend(db *sql.DB, d Dialect, o Options) *Backend {
	b := &Backend{db: db, dialect: d, options: o, statements: newStatements(d, o.Table)}
	b.leases = kit.NewLeases(b, o.Timeout)
	return b
}

// open checks that the table exists and is writable, and that the database can keep locks.
func (b *Backend) open(ctx context.Context) error {
	// This changes no row, but fails unless the table can be read and written.
	if _, _, err := b.change(ctx, b.statements.release, []byte("anylock: open"), []byte("nobody")); err != nil {
		return err
	}
	f, err := b.read(ctx)
	if err != nil {
		return err
	}
	for _, finding := range kit.Apply(rules[b.dialect], "", f) {
		if finding.Severity == backend.Critical {
			return fmt.Errorf("%w: %s: %s", backend.ErrUnsupported, finding.Found, finding.Why)
		}
	}
	return nil
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return Guarantees(b.dialect) }

// Inspect implements [backend.Backend].
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return kit.Call(ctx, b.leases, backend.ValidateKey(key), func(ctx context.Context) (backend.Holder, error) {
		return b.holder(ctx, key)
	})
}

// List implements [backend.Lister].
func (b *Backend) List(ctx context.Context, prefix string) ([]string, error) {
	return kit.Call(ctx, b.leases, nil, func(ctx context.Context) ([]string, error) {
		rows, err := b.rows(ctx, b.statements.list, []byte(prefix))
		maps.DeleteFunc(rows, func(key string, _ backend.Holder) bool { return !strings.HasPrefix(key, prefix) })
		return slices.Collect(maps.Keys(rows)), err
	})
}

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		rows, o, err := b.change(ctx, b.statements.release, []byte(key), []byte(owner))
		if err == nil && rows == 0 && !o.unsure { // if unsure, the first try may have ended the lease
			return backend.ErrLost
		}
		return err
	})
}

// Close implements [backend.Backend]. The database stays open unless Options.CloseDB is set.
func (b *Backend) Close() error {
	if !b.leases.Close() || !b.options.CloseDB {
		return nil
	}
	defer b.leases.Drain()
	return b.db.Close()
}
