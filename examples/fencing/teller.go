package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	_ "github.com/anylock/lock/file"
)

var fences = fence.NewTable(fence.Postgres, "fences")

type teller struct {
	name   string
	db     *sql.DB
	fenced bool
}

// work deposits amount under the lock.
func (t teller) work(ctx context.Context, url string, amount int) error {
	locks, err := lock.Open(ctx, url, lock.WithTTL(3*time.Second))
	if err != nil {
		return err
	}
	defer locks.Close()
	lease, err := locks.Acquire(ctx, "account/7")
	if err != nil {
		return err
	}
	if err := t.deposit(ctx, lease, amount); errors.Is(err, fence.ErrStale) {
		t.say("is refused: %v", err)
	} else if err != nil {
		return err
	}
	if err := lease.Release(ctx); errors.Is(err, lock.ErrLost) {
		t.say("learns that its lease had ended")
	} else if err != nil {
		return err
	}
	return nil
}

// deposit reads the balance in one transaction, and writes it in another one.
func (t teller) deposit(ctx context.Context, lease *lock.Lease, amount int) error {
	var balance int
	if err := t.transact(ctx, lease, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT balance FROM account WHERE id = 7`).Scan(&balance)
	}); err != nil {
		return err
	}
	if err := lease.Err(); err != nil { // the last look at the lease
		return err
	}
	t.say("holds the lock and has read %d", balance)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil { // here A is stopped
		return err
	}
	if err := t.transact(ctx, lease, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE account SET balance = $1 WHERE id = 7`, balance+amount)
		return err
	}); err != nil {
		return err
	}
	t.say("has written %d", balance+amount)
	return nil
}

// transact calls f in a transaction, which begins with the check of the token if the teller is fenced.
func (t teller) transact(ctx context.Context, lease *lock.Lease, f func(tx *sql.Tx) error) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if t.fenced {
		if err := fences.Check(ctx, tx, "account/7", lease.Token()); err != nil {
			return err
		}
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (t teller) say(format string, args ...any) { fmt.Printf("  "+t.name+" "+format+"\n", args...) }
