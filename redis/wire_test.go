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
	db    int // that its client asks for
	mu    sync.Mutex
	hang  bool // the next connection that is written to takes that and all that follows, and passes nothing on
	least int  // the next answer of more bytes is cut, with its connection, after least; 0 for none
}

// client is a caller's client whose connections are the wire's. It repeats nothing.
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

// inOne makes n requests, which start begins, wait until all are there, so that they travel in one pipeline. What a
// clean-up that still goes on asks meanwhile may travel with them.
func inOne(t *testing.T, l *exchange.Batcher, n int, start func()) {
	t.Helper()
	var release func()
	until(t, soon, "no worker is open or will be", func() (ok bool) {
		release, ok = l.Gather()
		return ok
	})
	start()
	until(t, soon, "all requests wait", func() bool { return l.Waiting() >= n })
	release()
}

// wired is a Backend on a caller's client with the wire's connections, which has made its first request.
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
