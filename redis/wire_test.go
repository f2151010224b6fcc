package redis

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/redis/internal/exchange"
)

// A wire dials connections that fail on demand.
type wire struct {
	db    int // the database of its client
	mu    sync.Mutex
	hang  bool // the next connection that is written to hangs: it discards this and all later writes
	least int  // the next read of more than least bytes is cut after least bytes, and the connection closed; 0: none
}

// client returns a caller's client that uses the wire's connections. It does not retry.
func (w *wire) client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DB: w.db, MaxRetries: -1, Dialer: w.dial})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn, wire: w}, nil
}

func (w *wire) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

type wireConn struct {
	net.Conn
	wire *wire
	hung bool
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.wire.set(func() {
		c.hung = c.hung || c.wire.hang
		c.wire.hang = false
	})
	if c.hung {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.set(func() {
		if least := c.wire.least; least > 0 && n > least {
			n, c.wire.least = least, 0
			_ = c.Conn.Close()
		}
	})
	return n, err
}

// inOne makes the n requests that start begins share one pipeline. It gives b a Batcher whose workers begin when n
// requests wait.
func inOne(t *testing.T, b *Backend, n int, start func()) {
	t.Helper()
	until(t, soon, "nothing uses the Batcher", b.leases.Idle)
	gate := make(chan struct{})
	defer close(gate)
	b.batcher = exchange.NewBatcher(b.client.(*redis.Client), func(run func(context.Context)) bool {
		return b.leases.Go(func(ctx context.Context) {
			<-gate
			run(ctx)
		})
	})
	start()
	until(t, soon, "all requests wait", func() bool { return b.batcher.Waiting() >= n })
}

// wired returns a Backend on a client of w. The Backend has sent its first request.
func wired(t *testing.T, w *wire, addr string) *Backend {
	t.Helper()
	b, err := onClient(w.client(t, addr), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	release(t, acquire(t, b, req("warm", time.Minute)))
	return b
}
