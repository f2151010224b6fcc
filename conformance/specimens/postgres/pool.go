package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
)

// A pool lends connections that nobody keeps, as pgxpool and database/sql do.
type pool struct {
	config *pgx.ConnConfig
	slots  chan struct{} // one for each connection that is lent
	mu     sync.Mutex
	idle   []*pgx.Conn
	closed bool
}

func newPool(addr string, size int) (*pool, error) {
	config, err := pgx.ParseConfig("postgres://postgres@" + addr + "/postgres?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip for statements that differ in their labels
	return &pool{config: config, slots: make(chan struct{}, size)}, nil
}

// borrow returns a connection, which must be given back or taken out.
func (p *pool) borrow(ctx context.Context) (*pgx.Conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, backend.ContextError(ctx, nil)
	}
	if c := p.pop(); c != nil {
		return c, nil
	}
	c, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		<-p.slots
	}
	return c, err
}

func (p *pool) pop() *pgx.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		c := p.idle[last]
		p.idle = p.idle[:last]
		if !c.IsClosed() {
			return c
		}
	}
	return nil
}

func (p *pool) giveBack(c *pgx.Conn) {
	<-p.slots
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		hangUp(c)
		return
	}
	p.idle = append(p.idle, c)
}

// takeOut lets the borrower keep the connection for good.
func (p *pool) takeOut() { <-p.slots }

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		hangUp(c)
	}
	p.idle = nil
}

// hangUp closes a connection without waiting for the server.
func hangUp(c *pgx.Conn) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ended)
}
