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
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	fencetest.Run(t, fencetest.Database{
		DB: db, Dialect: fence.SQLite, Levels: []sql.IsolationLevel{sql.LevelDefault},
		Again: func(err error) bool {
			const primary = 0xff // of an extended code
			e := (*sqlite.Error)(nil)
			return errors.As(err, &e) && e.Code()&primary == lib.SQLITE_BUSY
		},
	})
}
