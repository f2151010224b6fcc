package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/eager"
)

// A server is what a connection finds at its other end.
type server struct {
	pid       string // of the session
	begun     string // when the session began; with pid it is unique
	version   int
	labelSize int   // of a query as pg_stat_activity shows it
	locks     int64 // room in the shared lock table
}

const (
	firstSession     = 140000 // idle_session_timeout
	firstTransaction = 100000 // pg_current_xact_id's forerunner, and text of boolean parameters
	connectLimit     = 10 * time.Second
)

// connect makes a session that nobody has checked out yet.
func (b *Backend) connect(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	stop := context.AfterFunc(b.base, cancel)
	defer stop()
	s, err := b.dial(ctx)
	if err != nil {
		return nil, translate(err)
	}
	if b.options.Mode == ModeSession {
		err = s.setUp(ctx)
	}
	if err != nil {
		_ = s.conn.Conn().Close()
		return nil, translate(err)
	}
	return s, nil
}

// hosts counts the servers that config names.
func hosts(config *pgconn.Config) int {
	type host struct {
		name string
		port uint16
	}
	named := map[host]bool{{config.Host, config.Port}: true}
	for _, f := range config.Fallbacks {
		named[host{f.Host, f.Port}] = true
	}
	return len(named)
}

// dial connects and looks at the server.
func (b *Backend) dial(ctx context.Context) (*session, error) {
	conn, err := pgconn.ConnectConfig(ctx, b.config.Copy())
	if err != nil {
		return nil, err
	}
	s := &session{b: b, conn: conn, turn: make(chan struct{}, 1), holds: make(map[hash]*hold), used: time.Now()}
	if s.server, err = s.lookAt(ctx); err != nil {
		_ = conn.Conn().Close()
		return nil, err
	}
	return s, nil
}

// lookAt refuses servers that cannot keep locks.
func (s *session) lookAt(ctx context.Context) (srv server, err error) {
	row, err := s.simple(ctx, lookSQL)
	if err != nil {
		return srv, err
	}
	const columns = 7
	if len(row) != columns {
		return srv, refused("the server's answer has %d columns", len(row))
	}
	srv.version, _ = strconv.Atoi(row[1])
	srv.pid = row[2]
	srv.labelSize, _ = strconv.Atoi(row[4])
	srv.begun = row[5]
	srv.locks, _ = strconv.ParseInt(row[6], 10, 64)
	switch {
	case row[0] == "t":
		return srv, refused("the server is a standby; locks on it exclude nobody on the primary (target_session_attrs=primary finds that)")
	case s.b.options.Mode == ModeSession && srv.version < firstSession:
		return srv, refused("Postgres %d has no idle_session_timeout, which came with 14: open with %s=transaction",
			srv.version/10000, paramMode)
	case srv.version < firstTransaction:
		return srv, refused("Postgres before 10")
	}
	return srv, nil
}

func (s *session) setUp(ctx context.Context) (err error) {
	if s.prepared, err = prepare(ctx, s.conn, s.b.options); err != nil {
		return err
	}
	if _, err = s.simple(ctx, setupSQL); err != nil {
		return err
	}
	if _, err = s.simple(ctx, checkIntervalSQL); s.isBroken() {
		return err
	}
	return nil // what has no such setting goes without
}

// look connects for the first time, and finds out about poolers.
func (b *Backend) look(ctx context.Context) error {
	s, err := b.pool.checkOut(ctx, nil, false)
	if err != nil {
		return err
	}
	defer b.pool.checkIn(s)
	b.locks.Store(s.server.locks)
	err = s.turnFor(ctx, func() error {
		pctx, cancel := context.WithTimeout(ctx, connectLimit)
		defer cancel()
		err := b.probe(pctx, s)
		if err != nil {
			s.close()
		}
		return err
	})
	if err != nil && backend.Ended(ctx) {
		return backend.ContextError(ctx, err)
	}
	return err
}

// probe refuses a pooler that cannot keep what the mode needs: a session, or a transaction.
func (b *Backend) probe(ctx context.Context, s *session) error {
	if b.options.Mode == ModeTransaction {
		_, err := s.simple(ctx, "BEGIN") // in statement pooling it is the end
		if err == nil {
			_, err = s.simple(ctx, "COMMIT")
		}
		if code(err) != "" {
			return refused("no transactions here: %v", err)
		}
		return err
	}
	if s.isDirect() {
		return nil // the session that answers is the one that was connected to
	}
	return b.probePooler(ctx, s)
}

// probePooler asks a second connection to keep a session busy, and looks whether the first one still has its own. In
// transaction pooling the second gets the session that the first has used last.
func (b *Backend) probePooler(ctx context.Context, s *session) error {
	const rounds, patience = 3, time.Second
	pooled := refused("a pooler gives statements to different sessions (as PgBouncer with pool_mode=transaction): "+
		"open with %s=transaction", paramMode)
	for range rounds {
		other, err := b.dial(ctx)
		if err != nil {
			return err
		}
		defer other.conn.Conn().Close()
		_, err = other.simple(ctx, "BEGIN")
		var row []string
		if err == nil {
			row, err = other.simple(ctx, renewSQL)
		}
		if code(err) != "" {
			return pooled
		}
		if err != nil {
			return err
		}
		if row[0] == s.server.pid || row[0] != other.server.pid {
			return pooled
		}
		pctx, cancel := context.WithTimeout(ctx, patience)
		row, err = s.simple(pctx, renewSQL)
		cancel()
		if err != nil || len(row) == 0 || row[0] != s.server.pid {
			return pooled
		}
	}
	return nil
}

// track makes the config's connections known to b, so that Close and tests can break them, and lets the kernel find out
// about those whose other end is gone.
func (b *Backend) track(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3})
			limitSilence(tcp, 30*time.Second) // the same when a request is on its way, which keeps the probes back
		}
		t := &tracked{Conn: eager.New(c), b: b}
		b.connsMu.Lock()
		b.conns[t] = struct{}{}
		b.connsMu.Unlock()
		return t, nil
	}
}

// A tracked connection is one that b knows.
type tracked struct {
	net.Conn
	b *Backend
}

func (t *tracked) Close() error {
	t.b.connsMu.Lock()
	delete(t.b.conns, t)
	t.b.connsMu.Unlock()
	return t.Conn.Close()
}

func randomName() string {
	var r [6]byte
	rand.Read(r[:]) // never fails since Go 1.24
	return hex.EncodeToString(r[:])
}

// tracked is the session's connection beneath its encryption.
func (s *session) tracked() *tracked {
	c := s.conn.Conn()
	if enc, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = enc.NetConn()
	}
	t, _ := c.(*tracked)
	return t
}
