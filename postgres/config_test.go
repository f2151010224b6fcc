package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

func parsed(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// BeforeConnect sets the password of each new connection, so that the store keeps working after the password has
// changed.
func TestBeforeConnect(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t) // its authentication requires a password for the role guarded
	admin := dialed(t, s.PostgresURL())
	exec := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE ROLE guarded LOGIN PASSWORD 'first'")
	config := parsed(t, "postgres://guarded:stale@"+s.Addr+"/postgres?sslmode=disable")
	var password atomic.Value
	password.Store("first")
	broken := errors.New("no token")
	b, err := New(t.Context(), config, &Options{BeforeConnect: func(_ context.Context, c *pgx.ConnConfig) error {
		c.Password = password.Load().(string)
		if c.Password == "" {
			return broken
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	first := acquire(t, b, req("a", time.Minute))
	exec("ALTER ROLE guarded PASSWORD 'second'")
	if _, err := b.Acquire(t.Context(), req("b", time.Minute)); err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("with the old password: %v", err)
	}
	password.Store("second")
	second := acquire(t, b, req("b", time.Minute))
	password.Store("")
	_, err = b.Acquire(t.Context(), req("c", time.Minute))
	if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, broken) {
		t.Errorf("BeforeConnect fails: %v", err)
	}
	release(t, first)
	release(t, second)
	if config.Password != "stale" {
		t.Error("the caller's configuration was changed")
	}
}

// unprivileged creates a role without rights.
func unprivileged(t *testing.T, admin *pgx.Conn) (role string) {
	t.Helper()
	role = "unprivileged_" + strings.ToLower(rand.Text())
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+role); err != nil {
		t.Fatal(err)
	}
	return role
}

// If the application's sessions have a role by SET ROLE, the store still sees its sessions, and may end them.
func TestOwnRole(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := newProxy(t, s.Addr)
	config := parsed(t, s.via(p.Addr))
	config.RuntimeParams["role"] = unprivileged(t, dialed(t, s.PostgresURL()))
	b, err := New(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r := req("k", time.Minute)
	l := acquire(t, b, r)
	if h, err := b.Inspect(t.Context(), "k"); err != nil || h.Owner != r.Owner {
		t.Errorf("inspect: %+v, %v, want %s", h, err, r.Owner)
	}
	if err := b.Break(t.Context(), "k", r.Owner); err != nil {
		t.Errorf("break: %v", err)
	}
	lost(t, l, soon)
	l = acquire(t, b, req("k", time.Minute))
	p.set(func(p *proxy) { p.keep = true }) // the server does not see that the connection has ended
	b.cut()
	lost(t, l, soon)
	release(t, acquire(t, b, waiting("k", time.Minute))) // once the session has been terminated
	until(t, 3*soon, "no session is left to terminate", func() bool {
		b.orphansMu.Lock()
		defer b.orphansMu.Unlock()
		return len(b.orphans) == 0
	})
}

// An application's settings for its own sessions neither end a lock's session nor limit its waits.
func TestOwnSettings(t *testing.T) {
	t.Parallel()
	s := shared(t)
	admin := dialed(t, s.PostgresURL())
	role := unprivileged(t, admin)
	config := parsed(t, s.PostgresURL())
	for name, value := range map[string]string{
		"application_name": "shop", "statement_timeout": "1", "lock_timeout": "1", "idle_session_timeout": "1",
		"idle_in_transaction_session_timeout": "100", "default_transaction_isolation": "serializable",
		"default_transaction_read_only": "on", "search_path": "shop", "role": role,
	} {
		config.RuntimeParams[name] = value
	}
	b, err := New(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := acquire(t, b, req("k", time.Minute))
	done := queueUp(t, b, waiting("k", time.Minute), 1)
	const longer = 300 * time.Millisecond // than each of these time limits
	select {
	case o := <-done:
		t.Fatalf("the waiter got %+v", o)
	case <-time.After(longer):
	}
	const who = `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shop'`
	if n := query[int](t, admin, who); n < 2 {
		t.Errorf("%d sessions have the application's name", n)
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)
}
