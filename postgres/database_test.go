package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// An applicationConn stands for *stdlib.Conn: it has the method that NewFromDB uses. The module fence/sqltest tests
// stdlib itself, which needs modules that this module does not require.
type applicationConn struct{ conn *pgx.Conn }

func (c applicationConn) Conn() *pgx.Conn                     { return c.conn }
func (c applicationConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c applicationConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c applicationConn) Close() error                        { return c.conn.Close(context.Background()) }
func (c applicationConn) Ping(ctx context.Context) error      { return c.conn.Ping(ctx) }

// A tracedConn is a connection of a driver that wraps another driver.
type tracedConn struct{ driver.Conn }

func (c tracedConn) Raw() driver.Conn { return c.Conn }

// An otherConn is a connection of a driver that is not the driver of pgx.
type otherConn struct{ driver.Conn }

// An applicationConnector opens the connections of an application's *sql.DB, and counts them.
type applicationConnector struct {
	config *pgx.ConnConfig
	wrap   func(driver.Conn) driver.Conn
	made   *atomic.Int32
}

func (c applicationConnector) Driver() driver.Driver { return nil }

func (c applicationConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c.made.Add(1)
	conn, err := pgx.ConnectConfig(ctx, c.config)
	if err != nil {
		return nil, err
	}
	return c.wrap(applicationConn{conn}), nil
}

// applicationDB returns a database with at most one connection, and the counter of the connections that it has opened.
func applicationDB(t *testing.T, url string, wrap func(driver.Conn) driver.Conn) (*sql.DB, *atomic.Int32) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	made := new(atomic.Int32)
	db := sql.OpenDB(applicationConnector{config, wrap, made})
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db, made
}

func bare(c driver.Conn) driver.Conn { return c }

// A store made from an application's database uses the database's configuration, but not its connections, and does not
// close it.
func TestNewFromDB(t *testing.T) {
	t.Parallel()
	s := shared(t)
	byURL := opened(t, s.PostgresURL())
	for what, wrap := range map[string]func(driver.Conn) driver.Conn{
		"pgx":           bare,
		"wrapped twice": func(c driver.Conn) driver.Conn { return tracedConn{tracedConn{c}} },
	} {
		t.Run(what, func(t *testing.T) {
			db, made := applicationDB(t, s.PostgresURL(), wrap)
			b, err := NewFromDB(t.Context(), db, nil)
			if err != nil {
				t.Fatal(err)
			}
			if g, want := b.Guarantees(), byURL.Guarantees(); g != want {
				t.Errorf("NewFromDB: %+v\nby URL: %+v", g, want)
			}
			busy, err := db.Conn(t.Context()) // the only connection
			if err != nil {
				t.Fatal(err)
			}
			l := acquire(t, b, req(what, time.Minute))
			if _, err := byURL.Acquire(t.Context(), req(what, time.Minute)); !errors.Is(err, backend.ErrHeld) {
				t.Errorf("a store of the same database: %v, want ErrHeld", err)
			}
			release(t, l)
			if err := errors.Join(busy.Close(), b.Close(), db.PingContext(t.Context())); err != nil {
				t.Error(err)
			}
			if n := made.Load(); n != 1 {
				t.Errorf("the database has made %d connections, want 1", n)
			}
		})
	}
}

// Invalid arguments fail without a request. NewFromDB also fails if the driver is not that of pgx, if no connection is
// free in time, or if the server is down.
func TestNewFromDBRefuses(t *testing.T) {
	t.Parallel()
	s := shared(t)
	if _, err := NewFromDB(t.Context(), nil, nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("nil database: %v", err)
	}
	db, made := applicationDB(t, s.PostgresURL(), func(c driver.Conn) driver.Conn { return otherConn{c} })
	for _, o := range []Options{{MaxLeases: 1}, {MaxLeases: -1}, {Timeout: -1}} {
		if _, err := NewFromDB(t.Context(), db, &o); !errors.Is(err, backend.ErrInvalid) || made.Load() > 0 {
			t.Errorf("%+v: %v with %d connections", o, err, made.Load())
		}
	}
	if _, err := NewFromDB(t.Context(), db, nil); !errors.Is(err, backend.ErrUnsupported) ||
		!strings.Contains(err.Error(), "postgres.otherConn") {
		t.Errorf("another driver: %v", err)
	}
	busy, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = NewFromDB(ctx, db, nil)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("all connections in use: %v", err)
	}
	if err := errors.Join(busy.Close(), db.PingContext(t.Context())); err != nil { // NewFromDB has kept no connection
		t.Error(err)
	}
	db, _ = applicationDB(t, "postgres://u:hunter2@"+closed+"/db?sslmode=disable", bare)
	if _, err := NewFromDB(t.Context(), db, nil); !errors.Is(err, backend.ErrUnavailable) ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("nobody listens: %v", err)
	}
}

// The core of the suite passes on a store whose configuration comes from a database, with a hook that changes the
// configuration of each connection.
func TestConformanceOwnClient(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "the core of the suite once more")
	s := servers.Postgres(t, "max_connections=900")
	db, _ := applicationDB(t, s.PostgresURL(), bare)
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		h := harness(t, s, s.PostgresURL())
		h.Open = func(ctx context.Context) (backend.Backend, error) {
			return NewFromDB(ctx, db, &Options{BeforeConnect: func(_ context.Context, c *pgx.ConnConfig) error {
				c.RuntimeParams["application_name"] = "app"
				return nil
			}})
		}
		h.Restart, h.RestartEmpty, h.StepClock = nil, nil, nil // the database would have to reconnect, too
		return h
	})
}
