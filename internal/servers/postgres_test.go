package servers

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/internal/storetest"
)

func connectSQL(t *testing.T, s *Server) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.PostgresURL()+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func askSQL[T any](t *testing.T, c *pgx.Conn, sql string) (v T) {
	t.Helper()
	if err := c.QueryRow(context.Background(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// A frozen Postgres does not reply on an existing session. A killed Postgres keeps its data.
func TestPostgresFaults(t *testing.T) {
	s := Postgres(t, "max_connections=20")
	c := connectSQL(t, s)
	if n := askSQL[string](t, c, "SHOW max_connections"); n != "20" {
		t.Errorf("max_connections is %s", n)
	}
	if _, err := c.Exec(context.Background(), "CREATE TABLE kept AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	other := connectSQL(t, s)
	s.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := other.Ping(ctx); err == nil {
		t.Error("a session of a frozen server answers")
	}
	s.Thaw()
	if n := askSQL[int](t, c, "SELECT n FROM kept"); n != 7 {
		t.Errorf("after a freeze: %d", n)
	}
	for range 2 {
		s.Kill()
		s.Start()
	}
	if n := askSQL[int](t, connectSQL(t, s), "SELECT n FROM kept"); n != 7 {
		t.Errorf("after a restart: %d", n)
	}
}

func TestPostgresPair(t *testing.T) {
	storetest.Long(t, "two servers")
	primary, standby := PostgresPair(t)
	if askSQL[bool](t, connectSQL(t, primary), "SELECT pg_is_in_recovery()") {
		t.Error("the primary is in recovery")
	}
	c := connectSQL(t, standby)
	if !askSQL[bool](t, c, "SELECT pg_is_in_recovery()") {
		t.Error("the standby is not in recovery")
	}
	primary.Kill()
	if !askSQL[bool](t, c, "SELECT pg_promote()") {
		t.Error("not promoted")
	}
}

// With transaction pooling, two clients share a session. With session pooling, they do not.
func TestPgBouncer(t *testing.T) {
	pg := Postgres(t)
	for mode, shared := range map[string]bool{"transaction": true, "session": false} {
		bouncer := PgBouncer(t, pg, mode)
		first := askSQL[int](t, connectSQL(t, bouncer), "SELECT pg_backend_pid()")
		second := askSQL[int](t, connectSQL(t, bouncer), "SELECT pg_backend_pid()")
		if (first == second) != shared {
			t.Errorf("%s pooling: two clients have the sessions %d and %d", mode, first, second)
		}
	}
}
