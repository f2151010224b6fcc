package mysqltable

import (
	"context"
	"database/sql"
	"testing"

	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	backenddriver "github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func openURL(ctx context.Context, raw string) (backend.Backend, error) {
	b, _, err := backenddriver.Open(ctx, raw)
	return b, err
}

func TestMain(m *testing.M) {
	process.Main(openURL)
	goleak.VerifyTestMain(m)
}

// start starts a MariaDB, and returns a handle of its database and the database's URL.
func start(t *testing.T) (s *servers.Server, db *sql.DB, raw string) {
	t.Helper()
	s = servers.MariaDB(t, "--innodb-flush-log-at-trx-commit=2", "--max-connections=500") // a kill loses no commit
	db, err := sql.Open("mysql", "root@tcp("+s.Addr+")/"+servers.MariaDatabase)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return s, db, "mysql://root@" + s.Addr + "/" + servers.MariaDatabase + "?timeout=10s"
}

func TestConformance(t *testing.T) {
	s, db, raw := start(t)
	storetest.Main(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, raw) },
			Evict: func(ctx context.Context, key string) error {
				_, err := db.ExecContext(ctx, `DELETE FROM anylock WHERE name=?`, []byte(key))
				return err
			},
			Freeze:       s.Freeze,
			Thaw:         s.Thaw,
			Restart:      func() { s.Kill(); s.Start() },
			RestartEmpty: s.RestartEmpty(),
			StepClock:    s.StepClock(),
			Linked:       link.URL(raw),
			Process:      process.Self(raw),
		}
	})
}
