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

// start starts a MariaDB, and returns a database of it and its URL.
func start(t *testing.T) (s *servers.Server, db *sql.DB, raw string) {
	t.Helper()
	// A kill of the server must lose no commit, nor the first pages of the system's tablespace, which are long in
	// memory only.
	s = servers.MariaDB(t, "--innodb-flush-log-at-trx-commit=2", "--innodb-max-dirty-pages-pct=0", "--innodb-max-dirty-pages-pct-lwm=0",
		"--max-connections=500")
	db, err := sql.Open("mysql", "root@tcp("+s.Addr+")/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), `CREATE DATABASE app`); err != nil {
		t.Fatal(err)
	}
	return s, db, "mysql://root@" + s.Addr + "/app?timeout=10s"
}

func TestConformance(t *testing.T) {
	s, db, raw := start(t)
	storetest.Main(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, raw) },
			Evict: func(ctx context.Context, key string) error {
				_, err := db.ExecContext(ctx, `DELETE FROM app.anylock WHERE name=?`, []byte(key))
				return err
			},
			Freeze:  s.Freeze,
			Thaw:    s.Thaw,
			Restart: func() { s.Kill(); s.Start() },
			Linked:  link.URL(raw),
			Process: process.Self(raw),
		}
	})
}
