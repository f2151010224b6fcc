package postgres

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/internal/servers"
)

// A database belongs to one test at a time, on the server that the package's tests share. Advisory locks belong to a
// database, so tests in different databases do not affect each other.
type database struct {
	*servers.Server
	name string
}

// shared returns a database for a test that neither breaks its server nor changes the database. A later test may get
// the same database, because creating one takes a third of a second of processor time.
func shared(t testing.TB) database {
	t.Helper()
	d, ok := unused.take(t, together.Get(t))
	if !ok {
		d = altered(t)
	}
	t.Cleanup(func() { unused.add(d) })
	return d
}

// altered creates a database for a test that changes it.
func altered(t testing.TB) database {
	t.Helper()
	s := together.Get(t)
	d := database{s, fmt.Sprint("test_", databases.Add(1))}
	c := dialed(t, s.PostgresURL())
	if _, err := c.Exec(context.Background(), "CREATE DATABASE "+d.name); err != nil {
		t.Fatal(err)
	}
	return d
}

// unusedDatabases holds the databases of tests that have ended.
type unusedDatabases struct {
	mu   sync.Mutex
	list []database
}

func (u *unusedDatabases) add(d database) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, d)
}

// take removes a database of s that has no session, and returns it.
func (u *unusedDatabases) take(t testing.TB, s *servers.Server) (d database, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) == 0 {
		return d, false
	}
	const names = "SELECT coalesce(array_agg(DISTINCT datname::text), '{}') FROM pg_stat_activity WHERE " +
		"datname IS NOT NULL"
	used := query[[]string](t, dialed(t, s.PostgresURL()), names)
	i := slices.IndexFunc(u.list, func(d database) bool { return d.Server == s && !slices.Contains(used, d.name) })
	if i < 0 {
		return d, false
	}
	d = u.list[i]
	u.list = slices.Delete(u.list, i, i+1)
	return d, true
}

// PostgresURL returns the URL of the database.
func (d database) PostgresURL() string { return d.via(d.Addr) }

// via returns the URL of the database through a proxy or pooler at addr.
func (d database) via(addr string) string {
	return "postgres://postgres@" + addr + "/" + d.name + "?sslmode=disable"
}

// role creates a role that has only the right to log in, and returns the database's URL for it.
func (d database) role(t testing.TB, c *pgx.Conn, options string) string {
	t.Helper()
	role := d.name + "_role"
	if _, err := c.Exec(context.Background(), "CREATE ROLE "+role+" LOGIN "+options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.Exec(context.Background(), "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return strings.Replace(d.PostgresURL(), "postgres@", role+"@", 1)
}

// gentleURL returns the URL of a database for tests that need only leases: that of $ANYLOCK_TEST_POSTGRES_URL, if set.
func gentleURL(t testing.TB) string {
	t.Helper()
	if os.Getenv(servers.PostgresEnv) != "" {
		return servers.PostgresURL(t)
	}
	return shared(t).PostgresURL()
}

var (
	together = servers.Shared{Start: func(t testing.TB) *servers.Server {
		return servers.Postgres(t,
			"max_connections=900")
	}}
	databases atomic.Int64
	unused    unusedDatabases
)
