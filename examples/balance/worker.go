package main

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/sqltable"
)

const ttl = 500 * time.Millisecond

// work adds to the account again and again, until the process is killed.
func work(ctx context.Context, db *sql.DB, check bool) error {
	var store *sqltable.Backend
	var err error
	for store == nil { // several processes may create the table at once
		if store, err = sqltable.New(ctx, db, sqltable.Postgres, nil); err != nil && !errors.Is(err, lock.ErrUnavailable) {
			return err
		}
	}
	locks, err := lock.New(store, lock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer locks.Close()
	for ctx.Err() == nil {
		l, err := locks.Acquire(ctx, "account")
		if err != nil {
			continue // the store did not answer in time: this process was stopped
		}
		// Not the lease's context: that would hide most of what happens without the check.
		_ = add(ctx, db, l, check, 1+rand.N[int64](100)) // a lost lease is no failure: nothing was written
		_ = l.Release(ctx)
	}
	return nil
}

// add adds an amount to the balance and to the ledger.
func add(ctx context.Context, db *sql.DB, l *lock.Lease, check bool, amount int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if check {
		if err := fence.NewLeases(fence.Postgres, sqltable.DefaultTable).Check(ctx, tx, l); err != nil {
			return err
		}
	}
	var balance int64
	if err := tx.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil {
		return err
	}
	time.Sleep(rand.N(20 * time.Millisecond)) // the work, in which the process may be stopped
	if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = $1`, balance+amount); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO ledger VALUES ($1)`, amount); err != nil {
		return err
	}
	return tx.Commit()
}
