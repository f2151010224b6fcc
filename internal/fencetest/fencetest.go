// Package fencetest has the tests of package fence that every database must pass.
package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/anylock/lock/fence"
)

// A Database is one under test. Nobody else uses its tables account and fences.
type Database struct {
	*sql.DB
	Dialect fence.Dialect
	Levels  []sql.IsolationLevel
	// Again reports whether err means that the transaction is to be begun again: a serialization failure, a deadlock.
	Again func(err error) bool
	// Waits reports whether a transaction waits for a lock of another. It is nil if the database makes nobody wait.
	Waits func(ctx context.Context) bool
}

// Run runs all tests.
func Run(t *testing.T, d Database) {
	t.Run("Order", d.order)
	t.Run("Names", d.names)
	for _, level := range d.Levels {
		for name, check := range d.checks() {
			t.Run(fmt.Sprintf("%v/%s", level, name), func(t *testing.T) {
				// There a row that was read is locked, and nobody else can write to it.
				if d.Dialect != fence.MySQL || level != sql.LevelSerializable {
					t.Run("OldSnapshot", func(t *testing.T) {
						if stale, err := d.OldSnapshot(t, level, check); stale || !d.refused(err) {
							t.Errorf("a write with a token below the last: took effect %v, error %v", stale, err)
						}
					})
				}
				if d.Waits != nil {
					t.Run("Waits", func(t *testing.T) { d.waits(t, level, check) })
				}
				t.Run("Storm", func(t *testing.T) { d.storm(t, level, check) })
			})
		}
	}
}

func (d Database) refused(err error) bool {
	return errors.Is(err, fence.ErrStale) || err != nil && d.Again(err)
}

// A Check checks the token of the one account that there is.
type Check func(ctx context.Context, tx *sql.Tx, token uint64) error

const accountID = 7

func (d Database) table() fence.Table   { return fence.NewTable(d.Dialect, "fences") }
func (d Database) column() fence.Column { return fence.NewColumn(d.Dialect, "account", "id", "fence") }

func (d Database) checks() map[string]Check {
	table, column := d.table(), d.column()
	return map[string]Check{
		"Table": func(ctx context.Context, tx *sql.Tx, token uint64) error {
			return table.Check(ctx, tx, "account/7", token)
		},
		"Column": func(ctx context.Context, tx *sql.Tx, token uint64) error {
			return column.Check(ctx, tx, accountID, token)
		},
	}
}

// Naive is the check that everybody writes first: look, then write. The column fence is raised with the write.
func Naive(ctx context.Context, tx *sql.Tx, token uint64) error {
	var seen uint64
	if err := tx.QueryRowContext(ctx, `SELECT fence FROM account`).Scan(&seen); err != nil {
		return err
	}
	return fence.Compare("account 7", token, seen)
}

// reset makes the tables anew, with one account that nobody has written to.
func (d Database) reset(t *testing.T) {
	t.Helper()
	for _, statement := range []string{
		`DROP TABLE IF EXISTS account`, `DROP TABLE IF EXISTS fences`,
		`CREATE TABLE account (id bigint PRIMARY KEY, fence bigint, balance bigint, history text)`,
		`INSERT INTO account VALUES (7, 0, 0, '')`,
	} {
		if _, err := d.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time it is there
		if err := d.table().Create(t.Context(), d.DB); err != nil {
			t.Fatal(err)
		}
	}
}

func (d Database) begin(t *testing.T, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := d.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// write adds 1 to the balance, as read before, and the token to the history.
func write(ctx context.Context, tx *sql.Tx, token uint64) error {
	var balance int64
	if err := tx.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`UPDATE account SET balance = %d, fence = %d, history = CONCAT(history, ' %d')`,
		balance+1, token, token))
	return err
}

// history returns the tokens of the writes that took effect, oldest first, and fails unless each has added 1.
func (d Database) history(t *testing.T) (tokens []uint64) {
	t.Helper()
	var balance int
	var history string
	if err := d.QueryRowContext(t.Context(), `SELECT balance, history FROM account`).Scan(&balance, &history); err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(history) {
		token, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if balance != len(tokens) {
		t.Errorf("%d writes, each of which adds 1, have made %d", len(tokens), balance)
	}
	return tokens
}

// OldSnapshot lets a transaction read before a later holder writes, and then check and write with the lower token. It reports whether
// that write took effect.
func (d Database) OldSnapshot(t *testing.T, level sql.IsolationLevel, check Check) (stale bool, err error) {
	t.Helper()
	d.reset(t)
	ctx := t.Context()
	old := d.begin(t, level)
	var balance int
	if err := old.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil {
		t.Fatal(err)
	}
	later := d.begin(t, level)
	if err := errors.Join(check(ctx, later, 512), write(ctx, later, 512), later.Commit()); err != nil {
		t.Fatal("the later holder: ", err)
	}
	if err = check(ctx, old, 256); err == nil {
		if err = write(ctx, old, 256); err == nil {
			err = old.Commit()
		}
	}
	_ = old.Rollback() // done, if it has committed
	var history string
	if err := d.QueryRowContext(ctx, `SELECT history FROM account`).Scan(&history); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(history, "256"), err
}

// BetweenCheckAndWrite lets a later holder write between another's check and write, which Naive cannot prevent. It reports whether the
// write with the lower token took effect.
func (d Database) BetweenCheckAndWrite(t *testing.T, level sql.IsolationLevel) (stale bool, err error) {
	t.Helper()
	d.reset(t)
	ctx := t.Context()
	old, later := d.begin(t, level), d.begin(t, level)
	if err := Naive(ctx, old, 256); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Naive(ctx, later, 512), write(ctx, later, 512), later.Commit()); err != nil {
		t.Fatal("the later holder: ", err)
	}
	if err = write(ctx, old, 256); err == nil {
		err = old.Commit()
	}
	_ = old.Rollback()
	tokens := d.history(t)
	return tokens[len(tokens)-1] == 256, err
}
