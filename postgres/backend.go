package postgres

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A Backend keeps locks in Postgres. It implements [backend.Backend].
type Backend struct {
	config     *pgx.ConnConfig // the application's; see connConfig
	options    Options
	guarantees backend.Guarantees
	leases     *kit.Leases
	pool       pool
	tokens     tokenSource
	probed     atomic.Bool // the first connection has shown that the server can keep locks

	orphansMu sync.Mutex // guards orphans
	orphans   []string   // names of sessions to terminate
}

var _ backend.Backend = (*Backend)(nil)

func newBackend(config *pgx.ConnConfig, o Options) *Backend {
	b := &Backend{config: config.Copy(), options: o, guarantees: guarantees(o)}
	b.pool = pool{b: b, all: make(map[*session]struct{}), watchAfter: watchAfter, closeAfter: closeAfter}
	b.leases = kit.NewLeases(requests{b}, o.Timeout)
	context.AfterFunc(b.leases.Closing(), b.pool.beginClose)
	context.AfterFunc(b.leases.Base(), b.pool.interruptRequests)
	return b
}

// limitLeases limits MaxLeases to a quarter of the server's lock table, because a full table makes every client's
// statements fail.
func (b *Backend) limitLeases(locks int64) {
	const part = 4
	if n := int(locks / part); n > 0 {
		b.options.MaxLeases = min(b.options.MaxLeases, n)
		b.guarantees.MaxLeases = b.options.MaxLeases
	}
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// call runs do as one call of the Backend. If invalid is not nil, call returns invalid and does not run do.
func (b *Backend) call(ctx context.Context, invalid error, do func(ctx context.Context) error) error {
	return b.leases.Call(ctx, invalid, func(ctx context.Context) error { return unavailable(do(ctx)) })
}

// Close implements [backend.Backend]. It does not release leases, because their holders may still be working.
// Connections that carry leases stay open, without a reader, until the server's timer ends them.
func (b *Backend) Close() error {
	if b.leases.Close() {
		b.pool.closeSessions()
		b.leases.Drain()
	}
	return nil
}
