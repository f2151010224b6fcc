package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A Backend keeps locks in Postgres. It implements [backend.Backend].
type Backend struct {
	config     *pgx.ConnConfig // of the application; see connConfig
	options    Options
	guarantees backend.Guarantees
	leases     *kit.Leases
	pool       pool
	places     places
	mint       mint
	probed     atomic.Bool // that the server, and what is before it, can do what the mode needs

	ghostsMu sync.Mutex // guards what follows
	ghosts   []server   // sessions to terminate
}

var _ backend.Backend = (*Backend)(nil)

func newBackend(config *pgx.ConnConfig, o Options) *Backend {
	b := &Backend{config: config.Copy(), options: o, guarantees: guarantees(o)}
	b.places.free = o.MaxLeases / 2
	b.pool = pool{b: b, all: make(map[*session]struct{}), quiet: quiet, rest: restLimit}
	b.leases = kit.NewLeases(requests{b}, o.Timeout)
	context.AfterFunc(b.leases.Closing(), b.pool.wake)
	context.AfterFunc(b.leases.Base(), b.stop)
	return b
}

// room keeps leases to a quarter of the server's lock table, because a full one stops everybody's statements.
func (b *Backend) room(locks int64) {
	const part = 4
	if n := int(locks / part); n > 0 {
		b.options.MaxLeases = min(b.options.MaxLeases, n)
		b.guarantees.MaxLeases = b.options.MaxLeases
		b.places.free = b.options.MaxLeases / 2
	}
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// call makes a call of Backend, unless it is invalid.
func (b *Backend) call(ctx context.Context, invalid error, do func(ctx context.Context) error) error {
	return b.leases.Call(ctx, invalid, func(ctx context.Context) error { return unavailable(do(ctx)) })
}

// Close implements [backend.Backend]. Connections that carry leases stay open, with nobody reading from them, until the
// server's timer ends them: the holders may still be at work.
func (b *Backend) Close() error {
	if b.leases.Close() {
		b.pool.end()
		b.leases.Drain()
	}
	return nil
}

// stop ends all requests without an answer.
func (b *Backend) stop() {
	p := &b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all {
		s.mu.Lock()
		_ = s.conn.Conn().SetDeadline(longAgo)
		s.mu.Unlock()
	}
}

// wake refuses those who wait for a session, and ends all watches.
func (p *pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serveLocked()
	for s := range p.all {
		s.want(0)
	}
}

// end closes the sessions without leases, and lets the others last until the server ends them.
func (p *pool) end() {
	p.mu.Lock()
	var over []*session
	for s := range p.all {
		s.quiet.Stop()
		if len(s.holds) == 0 {
			over = append(over, s)
			continue
		}
		time.AfterFunc(s.timeout+p.b.options.Timeout, func() { _ = s.wire().Close() })
	}
	p.mu.Unlock()
	for _, s := range over {
		select {
		case s.turn <- struct{}{}:
			s.close()
		default: // its request is under way still
			_ = s.wire().Close()
		}
	}
}
