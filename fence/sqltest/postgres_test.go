package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/internal/fencetest"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func openPostgres(t *testing.T) fencetest.Database {
	t.Helper()
	db, err := sql.Open("pgx", servers.Postgres(t).PostgresURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return fencetest.Database{
		DB: db, Dialect: fence.Postgres,
		Levels: []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		Again: func(err error) bool {
			const serializationFailure, deadlock = "40001", "40P01"
			e := (*pgconn.PgError)(nil)
			return errors.As(err, &e) && (e.Code == serializationFailure || e.Code == deadlock)
		},
		Waits: func(ctx context.Context) (waits bool) {
			err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`).Scan(&waits)
			return err == nil && waits
		},
	}
}

func TestPostgres(t *testing.T) { fencetest.Run(t, openPostgres(t)) }

func TestPostgresLeases(t *testing.T) {
	d := openPostgres(t)
	fencetest.RunLeases(t, d, d.DB)

	t.Run("Exists", func(t *testing.T) { // admits the next holder, which writes first
		order, err := d.Overtaken(t, d.DB, sql.LevelReadCommitted, fencetest.Exists)
		if order != "new old" || err != nil {
			t.Errorf("the writes are %q (%v)", order, err)
		}
	})
}

// A schema at the beginning of the search_path may shadow the server's functions, operators and types. A Table uses
// none of them.
func TestPostgresHostileSearchPath(t *testing.T) {
	url := servers.Postgres(t).PostgresURL()
	open := func(url string) *sql.DB {
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	if _, err := open(url).ExecContext(t.Context(), storetest.HostileSchema(nil)); err != nil {
		t.Fatal(err)
	}
	db, table := open(url+"&search_path=hostile,pg_catalog"), fence.NewTable(fence.Postgres, "fences")
	if err := table.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]func(context.Context, *sql.Tx, string, uint64) error{
		"Check": table.Check, "CheckShared": table.CheckShared,
	} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first inserts the row, and the second one updates it
			if err := check(t.Context(), tx, name, 1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Processes that start at the same time may all create the table.
func TestPostgresCreateAtOnce(t *testing.T) {
	d := openPostgres(t)
	table := fence.NewTable(fence.Postgres, "at_once")
	for range 50 {
		if _, err := d.ExecContext(t.Context(), `DROP TABLE IF EXISTS at_once`); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := table.Create(t.Context(), d.DB); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// If the check and the write are not atomic, a later holder can write in between. The test must detect that.
func TestPostgresNaive(t *testing.T) {
	if stale, err := openPostgres(t).BetweenCheckAndWrite(t, sql.LevelReadCommitted); !stale || err != nil {
		t.Errorf("a write with a token below the last: took effect %v, error %v", stale, err)
	}
}
