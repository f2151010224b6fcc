package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/internal/fencetest"
	"github.com/anylock/lock/internal/servers"
)

// startMariaDB starts a server for this test alone, and opens its database test.
func startMariaDB(t *testing.T) *sql.DB {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "tcp", servers.MariaDB(t).Addr
	open := func() *sql.DB {
		db, err := sql.Open("mysql", config.FormatDSN())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	if _, err := open().ExecContext(t.Context(), `CREATE DATABASE test`); err != nil {
		t.Fatal(err)
	}
	config.DBName = "test"
	return open()
}

func TestMariaDB(t *testing.T) {
	db := startMariaDB(t)
	d := fencetest.Database{
		DB: db, Dialect: fence.MySQL,
		Levels: []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		Again: func(err error) bool {
			const deadlock, recordChanged = 1213, 1020
			e := (*mysql.MySQLError)(nil)
			return errors.As(err, &e) && (e.Number == deadlock || e.Number == recordChanged)
		},
		Waits: func(ctx context.Context) (waits bool) {
			// innodb_trx would not do, because it is not refreshed while it is being polled.
			err := db.QueryRowContext(ctx, `SELECT variable_value > 0 FROM information_schema.global_status
				WHERE variable_name = 'Innodb_row_lock_current_waits'`).Scan(&waits)
			return err == nil && waits
		},
	}
	fencetest.Run(t, d)
	t.Run("Leases", func(t *testing.T) { fencetest.RunLeases(t, d, db) })

	// A plain SELECT reads the snapshot of its transaction, which has the token from before the later holder.
	t.Run("Naive", func(t *testing.T) {
		naive := fencetest.Writer(fencetest.Naive)
		if stale, err := d.OldSnapshot(t, sql.LevelRepeatableRead, naive, naive); !stale || err != nil {
			t.Errorf("a write with a token below the last: took effect %v, error %v", stale, err)
		}
	})
}
