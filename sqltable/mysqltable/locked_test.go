package mysqltable

import (
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// If a transaction has locked the row of one lease, all other leases of the batch are still renewed, at once.
func TestLockedRow(t *testing.T) {
	_, db, raw := start(t)
	b := storetest.Opened[*sqltable.Backend](t, raw)
	const n, locked, ttl = 20, 7, time.Minute
	list := storetest.HoldMany(t, b, 0, n, ttl)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has been committed
	var one int
	row := tx.QueryRowContext(t.Context(), `SELECT 1 FROM anylock WHERE name = 'many7' LOCK IN SHARE MODE`)
	if err := row.Scan(&one); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for i, err := range b.RenewBatch(t.Context(), list) {
		if (err != nil) != (i == locked) || errors.Is(err, backend.ErrLost) {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	if took := time.Since(begun); took > storetest.Soon {
		t.Errorf("the batch waited for %v", took)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for i, err := range b.RenewBatch(t.Context(), list) {
		if err != nil {
			t.Errorf("lease %d, after the transaction: %v", i, err)
		}
	}
	storetest.ReleaseMany(list)
}
