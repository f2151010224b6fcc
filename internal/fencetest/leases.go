package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/sqltable"
)

// A stopped is the lease of a holder that was stopped before it could check its clock again.
type stopped struct{ key, owner string }

func (s stopped) Key() string   { return s.key }
func (s stopped) Owner() string { return s.owner }
func (s stopped) Err() error    { return nil }

// A LeaseCheck checks l in tx.
type LeaseCheck func(ctx context.Context, tx *sql.Tx, l fence.Held) error

const table = "leases"

// RunLeases tests fence.Leases. store uses its own connections to the same database.
func RunLeases(t *testing.T, d Database, store *sql.DB) {
	check := fence.NewLeases(d.Dialect, table).Check
	for _, level := range d.Levels {
		t.Run(level.String(), func(t *testing.T) {
			if order, err := d.Overtaken(t, store, level, check); order != "old new" || err != nil {
				t.Errorf("the writes are %q (%v), want the old holder's before the new holder's", order, err)
			}
		})
	}
}

// Overtaken stops a holder between its check and its commit until its lease has expired, while another holder waits for
// the key. It returns the order of their writes.
func (d Database) Overtaken(
	t *testing.T, db *sql.DB, level sql.IsolationLevel, check LeaseCheck,
) (order string, err error) {
	t.Helper()
	ctx := t.Context()
	const ttl = 300 * time.Millisecond
	d.reset(t)
	store, err := sqltable.New(ctx, db, d.Dialect, &sqltable.Options{Table: table, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	old := backend.Request{Key: "account/7", Owner: backend.NewOwner(), TTL: ttl}
	lease, err := store.Acquire(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	tx := d.begin(t, level)
	if err := check(ctx, tx, stopped{old.Key, old.Owner}); err != nil {
		t.Fatal("the holder: ", err)
	}
	granted := make(chan error, 1)
	next := backend.Request{Key: old.Key, Owner: backend.NewOwner(), TTL: time.Minute, Wait: true}
	go func() {
		l, err := store.Acquire(ctx, next)
		if err == nil {
			err = d.append(ctx, "new")
			_ = l.Release(ctx)
		}
		granted <- err
	}()
	<-lease.Lost()
	select {
	case err := <-granted: // granted before the old holder's commit
		if err != nil {
			t.Fatal("the next holder: ", err)
		}
		granted <- nil
	case <-time.After(2 * ttl):
	}
	if _, err = tx.ExecContext(ctx, `UPDATE account SET history = CONCAT(history, ' old')`); err == nil {
		err = tx.Commit()
	}
	_ = tx.Rollback() // fails if it has committed
	if err := <-granted; err != nil {
		t.Fatal("the next holder: ", err)
	}
	tx = d.begin(t, sql.LevelDefault)
	if again := fence.NewLeases(d.Dialect, table).Check(ctx, tx, stopped{old.Key, old.Owner}); !errors.Is(again,
		fence.ErrStale) {
		t.Errorf("the old holder's next check: %v, want ErrStale", again)
	}
	_ = tx.Rollback()
	var history string
	if err := d.QueryRowContext(ctx, `SELECT history FROM account`).Scan(&history); err != nil {
		t.Fatal(err)
	}
	return history[1:], err
}

func (d Database) append(ctx context.Context, word string) error {
	_, err := d.ExecContext(ctx, fmt.Sprintf(`UPDATE account SET history = CONCAT(history, ' %s')`, word))
	return err
}

// Exists is a common but wrong check of a lease: it does not lock the row of the lease.
func Exists(ctx context.Context, tx *sql.Tx, l fence.Held) error {
	var one int
	return tx.QueryRowContext(ctx, `SELECT 1 FROM `+table+` WHERE token > 0`).Scan(&one)
}
