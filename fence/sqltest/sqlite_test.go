package sqltest

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/internal/fencetest"
)

func TestSQLite(t *testing.T) {
	path := "file:" + filepath.Join(t.TempDir(), "db")
	open := func(wait string) *sql.DB {
		db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout("+wait+")")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	db := open("10000")
	d := fencetest.Database{
		DB: db, Dialect: fence.SQLite, Levels: []sql.IsolationLevel{sql.LevelDefault},
		Again: func(err error) bool {
			const primary = 0xff // of an extended code
			e := (*sqlite.Error)(nil)
			return errors.As(err, &e) && e.Code()&primary == lib.SQLITE_BUSY
		},
	}
	fencetest.Run(t, d)
	t.Run("Leases", func(t *testing.T) { fencetest.RunLeases(t, d, open("100")) })
}
