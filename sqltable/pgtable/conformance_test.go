package pgtable

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "max_connections=300")
	storetest.Main(t, func(t *testing.T) conformance.Harness { return harness(s, tableURL(s)+patient) })
}

// With serializable as the default isolation level, statements that conflict fail and are repeated. The connections go
// through a pooler, where the store cannot set the level.
func TestConformanceSerializablePgBouncer(t *testing.T) {
	storetest.Long(t, "the core of the suite once more, at another isolation level")
	t.Parallel()
	s := servers.Postgres(t, "max_connections=300", "default_transaction_isolation=serializable")
	for _, mode := range []string{"session", "transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			bouncer := servers.PgBouncer(t, s, mode, "default_pool_size=80", "max_client_conn=2000")
			conformance.RunCore(t, func(t *testing.T) conformance.Harness {
				h := harness(s, tableURL(bouncer)+patient+"&lock_table=through_"+mode)
				h.Evict = func(ctx context.Context, key string) error { return evict(ctx, s, "through_"+mode, key) }
				// PgBouncer may report late that a server is unreachable.
				h.Restart, h.RestartEmpty, h.StepClock = nil, nil, nil
				// PgBouncer 1.18 stops if the connection of a cancel request breaks (its issue 801).
				h.Linked = nil
				return h
			}, "evict")
		})
	}
}

func harness(s *servers.Server, url string) conformance.Harness {
	return conformance.Harness{
		Open:         func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
		Evict:        func(ctx context.Context, key string) error { return evict(ctx, s, "anylock", key) },
		Freeze:       s.Freeze,
		Thaw:         s.Thaw,
		Restart:      func() { s.Kill(); s.Start() },
		RestartEmpty: s.RestartEmpty(),
		StepClock:    s.StepClock(),
		Linked:       link.URL(url),
		Process:      process.Self(url),
	}
}

// evict deletes the row of key, as an operator might.
func evict(ctx context.Context, s *servers.Server, table, key string) error {
	c, err := pgx.Connect(ctx, s.PostgresURL())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	// A serializable statement may fail because of concurrent ones.
	if _, err := c.Exec(ctx, `SET default_transaction_isolation = 'read committed'`); err != nil {
		return err
	}
	_, err = c.Exec(ctx, `DELETE FROM `+table+` WHERE name=$1`, []byte(key))
	return err
}
