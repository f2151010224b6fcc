package sqlitetable

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// With a rollback journal, a reader blocks the commit of a grant after the statement has returned the token. Nothing is
// granted then.
func TestReaderBlocksCommit(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "data.db") + "?_pragma=journal_mode(DELETE)&_pragma=busy_timeout(10)"
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	options := &sqltable.Options{Timeout: 500 * time.Millisecond, CloseDB: true}
	b, err := sqltable.New(t.Context(), db, sqltable.SQLite, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	reader, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := reader.QueryRow(`SELECT count(*) FROM anylock`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if l, err := b.Acquire(t.Context(), storetest.Try("k", time.Minute)); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a grant that cannot be committed: %v, %v, want ErrUnavailable", l, err)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	storetest.Release(t, storetest.Acquire(t, b, storetest.Try("k", time.Minute)))
}
