package sqlitetable

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// The settings are read together with the clock, which is the same as this test's.
func TestDoctor(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "data.db"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqltable.New(t.Context(), db, sqltable.SQLite, &sqltable.Options{CloseDB: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	storetest.Finds(t, b, "journal-mode", "busy-timeout")
	if list := storetest.Examined(t, b); len(list) != 2 {
		t.Errorf("%+v, want two findings", list)
	}
}
