package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A server that is not Postgres often waits for the end of a line, and so never sends a byte. Therefore the wait for
// the first byte has a separate limit while a store is opened. A busy Postgres can take two seconds to reply. If the
// caller's context has a deadline, the longer limit applies.
const (
	firstReplyLimit   = 1800 * time.Millisecond
	patientReplyLimit = 3500 * time.Millisecond

	// Limits are counted in ticks. If this machine is too busy to run the process, ticks come late and the limit grows,
	// because a server on the same machine is then slow, too.
	replyTick = 20 * time.Millisecond
)

var errNoFirstReply = errors.New("no reply")

// replyLimit returns the limit for the first byte of connections that are made for ctx, the caller's context.
func replyLimit(ctx context.Context) time.Duration {
	if _, ok := ctx.Deadline(); ok {
		return patientReplyLimit
	}
	return firstReplyLimit
}

// expectReply wraps dial: its connections wait at most limit for the first byte. If pgx dials a silent address again,
// to try it without TLS, that dial fails at once. The result is for one call of pgconn.ConnectConfig.
func expectReply(dial pgconn.DialFunc, limit time.Duration) pgconn.DialFunc {
	var silent sync.Map // of addresses
	noReply := fmt.Errorf("%w: connected, but %w within %v; is it the port of a Postgres server?",
		backend.ErrUnavailable, errNoFirstReply, limit)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if _, known := silent.Load(addr); known {
			return nil, noReply
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		waiting, stop := context.WithCancel(context.Background())
		conn := &repliedConn{Conn: c, noReply: noReply, stop: stop}
		go func() {
			for range limit / replyTick {
				if kit.Sleep(waiting, replyTick) != nil {
					return
				}
			}
			conn.first.Do(func() {
				silent.Store(addr, true)
				conn.expired = true
				_ = c.SetReadDeadline(longAgo)
			})
		}()
		return conn, nil
	}
}

// A repliedConn fails reads with noReply if its first byte does not arrive in time.
type repliedConn struct {
	net.Conn
	noReply error
	first   sync.Once // what happens first: a read returns, the connection is closed, or the time limit has passed
	stop    func()    // ends the wait for the time limit
	expired bool      // the time limit has passed; set by first
}

func (c *repliedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.first.Do(c.stop)
	if c.expired && n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, c.noReply
	}
	return n, err
}

func (c *repliedConn) Close() error {
	c.first.Do(c.stop)
	return c.Conn.Close()
}
