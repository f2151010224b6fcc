package postgres

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/internal/servers"
)

// A database is a test's own, on the server that the package's tests share. Advisory locks belong to a database, so that tests in
// different ones have nothing to do with each other.
type database struct {
	*servers.Server
	name string
}

// shared makes a database for a test that does not break its server.
func shared(t testing.TB) database {
	t.Helper()
	s := together.start(t)
	d := database{s, fmt.Sprint("test_", databases.Add(1))}
	c, err := pgx.Connect(context.Background(), s.PostgresURL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(context.Background(), "CREATE DATABASE "+d.name); err != nil {
		t.Fatal(err)
	}
	return d
}

// PostgresURL is the URL of the database.
func (d database) PostgresURL() string { return d.via(d.Addr) }

// via is the URL of the database behind a proxy or pooler.
func (d database) via(addr string) string {
	return "postgres://postgres@" + addr + "/" + d.name + "?sslmode=disable"
}

// gentleURL is for tests that need no more of their server than leases: $ANYLOCK_TEST_POSTGRES_URL, or a database.
func gentleURL(t testing.TB) string {
	t.Helper()
	if os.Getenv(servers.PostgresEnv) != "" {
		return servers.PostgresURL(t)
	}
	return shared(t).PostgresURL()
}

var (
	together  common
	databases atomic.Int64
)

// A common server lives from the first test that asks for it to the end of all.
type common struct {
	mu       sync.Mutex
	server   *servers.Server
	cleanups []func()
	failed   atomic.Bool
}

// A lender starts the common server for a test, and keeps what is to be cleaned up after all of them.
type lender struct {
	testing.TB // the first test that asked
	c          *common
}

func (l lender) Cleanup(f func()) { l.c.cleanups = append(l.c.cleanups, f) }
func (l lender) Failed() bool     { return l.c.failed.Load() }
func (l lender) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...) // the test may be over
}

func (l lender) Errorf(format string, args ...any) {
	l.c.failed.Store(true)
	l.Logf(format, args...)
}

func (c *common) start(t testing.TB) *servers.Server {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		c.server = servers.Postgres(lender{t, c}, "max_connections=900")
	}
	return c.server
}

// Run is for goleak: all tests, and then the end of the server.
func (c *common) Run(m *testing.M) int {
	code := m.Run()
	c.failed.Store(code != 0)
	for i := len(c.cleanups) - 1; i >= 0; i-- {
		c.cleanups[i]()
	}
	if code == 0 && c.failed.Load() {
		code = 1
	}
	return code
}

// suite is all tests of the package.
type suite struct{ m *testing.M }

func (s suite) Run() int { return together.Run(s.m) }
