package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
)

// A server describes the server process at the other end of a connection.
type server struct {
	session string // name of the session: see setup.sql
	locks   int64  // size of the shared lock table
}

const (
	connectLimit = 10 * time.Second
	logins       = 2 // a login may take this many times Options.Timeout
)

// loginLimit limits the time of a login at one address, from the dial on, and then the time of prepare.
func (o Options) loginLimit() time.Duration { return logins * min(o.Timeout, connectLimit/logins) }

// connect opens a session, which is not yet in the pool.
func (b *Backend) connect(ctx context.Context) (*session, error) {
	limit := replyLimit(ctx)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, ourDial{}, true), connectLimit)
	defer cancel()
	defer context.AfterFunc(b.leases.Base(), cancel)()
	config, err := b.connConfig(ctx)
	if err != nil {
		return nil, err
	}
	if !b.probed.Load() {
		config.DialFunc = expectReply(config.DialFunc, limit)
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &session{b: b, conn: conn, turn: make(chan struct{}, 1), since: time.Now()}
	leave := s.bound(ctx, b.options.loginLimit())
	err = s.prepare()
	leave()
	if err == nil {
		return s, nil
	}
	_ = conn.Conn().Close()
	if isUnsupported(err) {
		err = unsupportedError("the server lacks what Postgres 14 has: %v; keep leases in a table, with a URL that begins "+
			"with postgres+table://", err)
	}
	return nil, err
}

// prepare makes a new connection ready for leases. It refuses servers that cannot keep locks.
func (s *session) prepare() error {
	row, err := s.simple(serverSQL)
	if err != nil {
		return err
	}
	s.server.locks, _ = strconv.ParseInt(row[2], 10, 64)
	switch {
	case row[0] == "t" && s.b.probed.Load(): // the primary is down, or a failover is under way
		return fmt.Errorf("%w: the server is a standby", backend.ErrUnavailable)
	case row[0] == "t":
		return unsupportedError("the server is a standby; locks on it exclude nobody on the primary " +
			"(target_session_attrs=primary finds that)")
	case row[1] != strconv.FormatUint(uint64(s.conn.PID()), 10): // a pooler invents a process id
		return unsupportedError("a pooler is before the server, and session locks do not work through poolers: " +
			"connect to the server itself, or keep leases in a table, with a URL that begins with postgres+table://")
	}
	if !s.b.probed.Load() { // some servers have functions that return true and lock nothing
		row, err := s.simple(fmt.Sprintf(probeSQL, rand.Int64()))
		if err != nil {
			return err
		}
		if row[0] != "1" {
			return unsupportedError("an advisory lock that the server has granted is not among its locks (pg_locks): " +
				"it excludes nobody")
		}
	}
	if row, err = s.simple(setupSQL + ";\n" + s.b.options.prepare()); err != nil {
		return err
	}
	s.server.session = row[0]
	if _, err = s.simple(checkIntervalSQL); s.isBroken() {
		return err
	}
	return nil // a platform without this setting works without it
}

// unsupportedError returns the error for what a server or a role does not permit.
func unsupportedError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", backend.ErrUnsupported, fmt.Sprintf(format, args...))
}

// ourDial marks the contexts of logins and of abort's cancel requests.
type ourDial struct{}

// detectsSilence wraps dial. It lets the kernel detect that the other end of a connection is gone. It refuses pgx's own
// cancel requests, for broken connections, because abort sends one for each of them.
func detectsSilence(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(ourDial{}) == nil {
			return nil, errBroken
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second,
				Count: 3})
			limitSilence(tcp, 30*time.Second) // while a request is unacknowledged, the kernel sends no probes
		}
		return c, nil
	}
}
