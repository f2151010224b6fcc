package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/internal/servers"
)

// A database is a test's own, on the server that the package's tests share. Advisory locks belong to a database, so
// that tests in different ones have nothing to do with each other.
type database struct {
	*servers.Server
	name string
}

// shared makes a database for a test that does not break its server.
func shared(t testing.TB) database {
	t.Helper()
	s := together.Get(t)
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

// role makes a role that may do nothing but log in, and returns the database's URL for it.
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

// gentleURL is for tests that need no more of their server than leases: $ANYLOCK_TEST_POSTGRES_URL, or a database.
func gentleURL(t testing.TB) string {
	t.Helper()
	if os.Getenv(servers.PostgresEnv) != "" {
		return servers.PostgresURL(t)
	}
	return shared(t).PostgresURL()
}

var (
	together  = servers.Shared{Start: func(t testing.TB) *servers.Server { return servers.Postgres(t, "max_connections=900") }}
	databases atomic.Int64
)
