package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	otherprocess "github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// many is the number of leases that one client of the suite holds at once. Each lease has its own connection.
const many = 14

func TestConformance(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "max_connections=900")
	storetest.Main(t, func(t *testing.T) conformance.Harness {
		h := harness(t, s, s.PostgresURL())
		h.Linked, h.Process = link.URL(s.PostgresURL()), otherprocess.Self(s.PostgresURL())
		return h
	})
}

func harness(t *testing.T, s *servers.Server, url string) conformance.Harness {
	return conformance.Harness{
		Open:         func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
		Evict:        func(ctx context.Context, key string) error { return evict(ctx, s, key) },
		Freeze:       s.Freeze,
		Thaw:         s.Thaw,
		Restart:      func() { s.Kill(); s.Start() },
		RestartEmpty: s.RestartEmpty(),
		StepClock:    s.StepClock(),
		Cut:          func(client backend.Backend) { client.(*Backend).cut() },
		Many:         many,
	}
}

// openURL opens a store as package lock does.
func openURL(ctx context.Context, url string) (*Backend, error) {
	b, _, err := driver.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return b.(*Backend), nil
}

// evict terminates the session that holds key.
func evict(ctx context.Context, s *servers.Server, key string) error {
	c, err := pgx.Connect(ctx, s.PostgresURL())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	classid, objid := hashOf(key).halves()
	_, err = c.Exec(ctx, `SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND classid = $1::oid AND objid = $2::oid`, classid, objid)
	return err
}

// cut closes the client's end of every connection.
func (b *Backend) cut() {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	for s := range b.pool.all {
		_ = s.wire().Close()
	}
}
