package sqlitetable

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// opened opens the database of source, and a store in it.
func opened(t *testing.T, source string) (*sql.DB, *sqltable.Backend) {
	t.Helper()
	db, err := sql.Open("sqlite", source)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqltable.New(t.Context(), db, sqltable.SQLite, &sqltable.Options{CloseDB: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return db, b
}

// A file that may not grow has no room for new keys. Live leases keep working, and new keys do once there is room.
func TestFullDisk(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "data.db")
	db, b := opened(t, file+"?_pragma=journal_mode(WAL)&_pragma=max_page_count(20)")
	const ttl, most = 10 * time.Minute, 1000
	held := storetest.Acquire(t, b, storetest.Try("held", ttl))
	fill := strings.Repeat("x", 900)
	var full error
	for i := 0; i < most && full == nil; i++ {
		_, full = b.Acquire(t.Context(), storetest.Try(fmt.Sprint(fill, i), ttl))
	}
	if !errors.Is(full, backend.ErrUnavailable) || !strings.Contains(full.Error(), "full") {
		t.Fatalf("a new key on a full disk: %v, want ErrUnavailable", full)
	}
	if err := held.Renew(t.Context(), ttl); err != nil {
		t.Errorf("renew on a full disk: %v", err)
	}
	storetest.Release(t, held)
	storetest.Release(t, storetest.Acquire(t, b, storetest.Try("held", ttl)))
	if _, err := db.ExecContext(t.Context(), `DELETE FROM anylock WHERE length(name)>900`); err != nil {
		t.Fatal(err)
	}
	storetest.Release(t, storetest.Acquire(t, b, storetest.Try(fill, ttl)))
}
