package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
)

// firstReplyLimit is how long a server may take for its first byte while a store is opened. A port that is not
// Postgres' often waits for the end of a line, and stays silent. A busy Postgres can take two seconds.
const firstReplyLimit = 3500 * time.Millisecond

var errNoFirstReply = fmt.Errorf("%w: connected, but no reply within %v; is it the port of a Postgres server?",
	backend.ErrUnavailable, firstReplyLimit)

// expectReply makes connections of dial wait at most firstReplyLimit for the first byte. An address that stayed silent
// is not dialled again, because pgx would try it without TLS. The result is for one call of pgconn.ConnectConfig.
func expectReply(dial pgconn.DialFunc) pgconn.DialFunc {
	var mu sync.Mutex
	silent := make(map[string]bool)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		known := silent[addr]
		mu.Unlock()
		if known {
			return nil, errNoFirstReply
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		onSilence := func() {
			mu.Lock()
			defer mu.Unlock()
			silent[addr] = true
		}
		timer := time.AfterFunc(firstReplyLimit, func() {
			onSilence()
			_ = c.SetReadDeadline(time.Unix(1, 0))
		})
		return &repliedConn{Conn: c, timer: timer}, nil
	}
}

// A repliedConn stops its timer when the first byte has arrived.
type repliedConn struct {
	net.Conn
	timer   *time.Timer
	replied atomic.Bool
}

func (c *repliedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.replied.Load() {
		return n, err
	}
	if stopped := c.timer.Stop(); n == 0 && !stopped && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, errNoFirstReply
	}
	c.replied.Store(true)
	return n, err
}

// Close also stops the timer, which would mark the address as silent.
func (c *repliedConn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}
