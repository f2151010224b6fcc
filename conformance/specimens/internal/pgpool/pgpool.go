// Package pgpool lends connections to Postgres.
package pgpool

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend/kit"
)

// A Pool lends connections that nobody keeps, as pgxpool and database/sql do.
type Pool struct {
	config *pgx.ConnConfig
	slots  chan struct{} // one for each connection that is lent
	mu     sync.Mutex
	idle   []*pgx.Conn
	closed bool
}

// New returns a pool that lends up to size connections to the server at addr.
func New(addr string, size int) (*Pool, error) {
	config, err := pgx.ParseConfig("postgres://postgres@" + addr + "/postgres?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip for statements that differ in their labels
	return &Pool{config: config, slots: make(chan struct{}, size)}, nil
}

// Borrow returns a connection, which must be given back or taken out.
func (p *Pool) Borrow(ctx context.Context) (*pgx.Conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, kit.ContextError(ctx, nil)
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

func (p *Pool) pop() *pgx.Conn {
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

// GiveBack ends a loan.
func (p *Pool) GiveBack(c *pgx.Conn) {
	<-p.slots
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		HangUp(c)
		return
	}
	p.idle = append(p.idle, c)
}

// TakeOut lets the borrower keep the connection for good.
func (p *Pool) TakeOut() { <-p.slots }

// PutIn gives the pool a connection that was taken out.
func (p *Pool) PutIn(c *pgx.Conn) {
	p.slots <- struct{}{}
	p.GiveBack(c)
}

// Close closes the connections that are not lent now, and the others when they are given back.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		HangUp(c)
	}
	p.idle = nil
}

// HangUp closes a connection without waiting for the server.
func HangUp(c *pgx.Conn) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ended)
}
