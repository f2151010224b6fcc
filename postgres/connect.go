package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A server is what a connection finds at its other end.
type server struct {
	pid       string // of the session
	begun     string // when the session began; with pid it is unique
	version   string
	labelSize int   // of a query as pg_stat_activity shows it
	locks     int64 // room in the shared lock table
}

const (
	connectLimit = 10 * time.Second
	logins       = 2 // time-outs of a request for a login, and for each step of a connection's preparation
)

// connect makes a session that nobody has checked out yet.
func (b *Backend) connect(ctx context.Context) (*session, error) {
	limit := replyLimit(ctx)
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	stop := context.AfterFunc(b.leases.Base(), cancel)
	defer stop()
	s, err := b.dial(ctx, limit)
	if err == nil && !b.probed.Load() {
		err = s.bounded(ctx, s.probe)
	}
	if err == nil {
		err = s.bounded(ctx, s.setUp)
	}
	if err != nil {
		if s != nil {
			_ = s.conn.Conn().Close()
		}
		return nil, translate(err)
	}
	return s, nil
}

// bounded gives do the time of one request.
func (s *session) bounded(ctx context.Context, do func() error) error {
	limit := logins * s.b.options.Timeout
	s.bound(ctx, limit)
	defer s.leave()
	err := do()
	if errors.Is(err, os.ErrDeadlineExceeded) && !kit.Ended(ctx) {
		err = fmt.Errorf("%w: connected, but no answer within %v", backend.ErrUnavailable, limit)
	}
	return err
}

// dial connects and looks at the server, whose first byte has replyLimit to arrive while the Backend is opened.
func (b *Backend) dial(ctx context.Context, replyLimit time.Duration) (*session, error) {
	config, err := b.connConfig(ctx)
	if err != nil {
		return nil, err
	}
	if !b.probed.Load() {
		config.DialFunc = expectReply(config.DialFunc, replyLimit)
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &session{b: b, conn: conn, turn: make(chan struct{}, 1), holds: make(map[hash]*held), since: time.Now()}
	err = s.bounded(ctx, func() (err error) {
		s.server, err = s.lookAt()
		if pid := strconv.FormatUint(uint64(conn.PID()), 10); err == nil && pid != s.server.pid { // a pooler makes one up
			err = refused("a pooler is before the server, and session locks do not work through poolers: " +
				"connect to the server itself, or keep leases in a table, with a URL that begins with postgres+table://")
		}
		return err
	})
	if err != nil {
		_ = conn.Conn().Close()
		return nil, err
	}
	return s, nil
}

// lookAt refuses servers that cannot keep locks.
func (s *session) lookAt() (srv server, err error) {
	row, err := s.simple(lookSQL)
	if lacking(err) {
		return srv, refused("the server lacks what Postgres has: %v", err)
	}
	if err != nil {
		return srv, err
	}
	const columns = 6
	if len(row) != columns {
		return srv, refused("the server's answer has %d columns", len(row))
	}
	srv.version, srv.pid, srv.begun = row[1], row[2], row[4]
	srv.labelSize, _ = strconv.Atoi(row[3])
	srv.locks, _ = strconv.ParseInt(row[5], 10, 64)
	if row[0] == "t" {
		return srv, refused("the server is a standby; locks on it exclude nobody on the primary " +
			"(target_session_attrs=primary finds that)")
	}
	return srv, nil
}

// guarded lets the kernel find out about connections whose other end is gone.
func (b *Backend) guarded(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second,
				Count: 3})
			limitSilence(tcp, 30*time.Second) // the same when a request is on its way, which keeps the probes back
		}
		_ = c.SetDeadline(time.Now().Add(logins * b.options.Timeout)) // who takes connections need not answer
		return c, nil
	}
}
