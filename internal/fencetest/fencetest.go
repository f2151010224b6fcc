// Package fencetest contains the tests of package fence that every database must pass.
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

// A Database is a database under test. Nobody else uses its tables account and fences.
type Database struct {
	*sql.DB
	Dialect fence.Dialect
	Levels  []sql.IsolationLevel
	// Again reports whether err means that the transaction must be retried: a serialization failure or a deadlock.
	Again func(err error) bool
	// Waits reports whether a transaction waits for a lock of another. It is nil if transactions never wait.
	Waits func(ctx context.Context) bool
}

// Run runs all tests.
func Run(t *testing.T, d Database) {
	t.Run("Order", d.order)
	t.Run("SharedOrder", d.sharedOrder)
	t.Run("Histories", d.histories)
	t.Run("Names", d.names)
	t.Run("UnfitColumns", d.unfitColumns)
	for _, level := range d.Levels {
		for name, c := range d.checks() {
			t.Run(fmt.Sprintf("%v/%s", level, name), func(t *testing.T) {
				for conflict, sides := range c.conflicts() {
					// In MySQL, a serializable transaction locks the rows that it reads, so no later holder could write.
					if d.Dialect != fence.MySQL || level != sql.LevelSerializable {
						t.Run("OldSnapshot/"+conflict, func(t *testing.T) {
							if stale, err := d.OldSnapshot(t, level, sides.old, sides.later); stale || !d.refused(err) {
								t.Errorf("an act with a token below the last: took effect %v, error %v", stale, err)
							}
						})
					}
					if d.Waits != nil {
						t.Run("Waits/"+conflict, func(t *testing.T) { d.waits(t, level, sides.old, sides.later) })
					}
				}
				t.Run("Storm", func(t *testing.T) { d.storm(t, level, c) })
			})
		}
	}
}

func (d Database) refused(err error) bool {
	return errors.Is(err, fence.ErrStale) || err != nil && d.Again(err)
}

// A Check checks a token of the only account.
type Check func(ctx context.Context, tx *sql.Tx, token uint64) error

const accountID = 7

func (d Database) table() fence.Table   { return fence.NewTable(d.Dialect, "fences") }
func (d Database) column() fence.Column { return fence.NewColumn(d.Dialect, "account", "id", "fence") }

func (d Database) columns() fence.Column {
	return fence.NewColumns(d.Dialect, "account", "id", "fence", "shared_fence")
}

// Checks are the checks of a writer and of a reader. Shared is nil if the resource has no readers.
type Checks struct{ Exclusive, Shared Check }

func (d Database) checks() map[string]Checks {
	table, column, columns := d.table(), d.column(), d.columns()
	return map[string]Checks{
		"Table": {
			Exclusive: func(ctx context.Context, tx *sql.Tx, token uint64) error {
				return table.Check(ctx, tx, "account/7", token)
			},
			Shared: func(ctx context.Context, tx *sql.Tx, token uint64) error {
				return table.CheckShared(ctx, tx, "account/7", token)
			},
		},
		"Column": {
			Exclusive: func(ctx context.Context, tx *sql.Tx, token uint64) error {
				return column.Check(ctx, tx, accountID, token)
			},
		},
		"Columns": {
			Exclusive: func(ctx context.Context, tx *sql.Tx, token uint64) error {
				return columns.Check(ctx, tx, accountID, token)
			},
			Shared: func(ctx context.Context, tx *sql.Tx, token uint64) error {
				return columns.CheckShared(ctx, tx, accountID, token)
			},
		},
	}
}

// An Actor is a writer or a reader.
type Actor struct {
	Check Check
	act   func(ctx context.Context, tx *sql.Tx, token uint64) error
}

// Writer returns a writer that checks with check.
func Writer(check Check) Actor { return Actor{check, write} }

func reader(check Check) Actor { return Actor{check, read} }

// actOnce checks token and acts, in an open transaction.
func (a Actor) actOnce(ctx context.Context, tx *sql.Tx, token uint64) error {
	if err := a.Check(ctx, tx, token); err != nil {
		return err
	}
	return a.act(ctx, tx, token)
}

type conflict struct{ old, later Actor }

// conflicts returns pairs of actors. In each pair, the old actor must be refused after the later actor has acted.
func (c Checks) conflicts() map[string]conflict {
	writer := Writer(c.Exclusive)
	conflicts := map[string]conflict{"WriterAfterWriter": {writer, writer}}
	if c.Shared != nil {
		conflicts["WriterAfterReader"] = conflict{writer, reader(c.Shared)}
		conflicts["ReaderAfterWriter"] = conflict{reader(c.Shared), writer}
	}
	return conflicts
}

// Naive is the check that everybody writes first: it reads and compares, and a separate write raises the column fence.
func Naive(ctx context.Context, tx *sql.Tx, token uint64) error {
	var seen uint64
	if err := tx.QueryRowContext(ctx, `SELECT fence FROM account`).Scan(&seen); err != nil {
		return err
	}
	return fence.Compare("account 7", token, seen)
}

// reset creates the tables anew, with one account that nobody has written to.
func (d Database) reset(t *testing.T) {
	t.Helper()
	for _, statement := range []string{
		`DROP TABLE IF EXISTS account`, `DROP TABLE IF EXISTS fences`,
		`CREATE TABLE account (id bigint PRIMARY KEY, fence bigint, shared_fence bigint, balance bigint, history text)`,
		`INSERT INTO account VALUES (7, 0, 0, 0, '')`,
	} {
		if _, err := d.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time the table exists
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

// write adds 1 to the balance that it has read, and appends the token to the history.
func write(ctx context.Context, tx *sql.Tx, token uint64) error {
	var balance int64
	if err := tx.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx,
		fmt.Sprintf(`UPDATE account SET balance = %d, fence = %d, history = CONCAT(history, ' %d')`,
			balance+1, token, token))
	return err
}

// read appends the token to the history, marked as a reader's.
func read(ctx context.Context, tx *sql.Tx, token uint64) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`UPDATE account SET history = CONCAT(history, ' %s%d')`, readMark, token))
	return err
}

const readMark = "r"

// An event is a write or a read that took effect.
type event struct {
	token  uint64
	shared bool
}

// history returns the events, oldest first. It fails the test unless each write has added 1.
func (d Database) history(t *testing.T) (events []event) {
	t.Helper()
	var balance, writes int
	var history string
	if err := d.QueryRowContext(t.Context(), `SELECT balance, history FROM account`).Scan(&balance, &history); err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(history) {
		digits, shared := strings.CutPrefix(field, readMark)
		token, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event{token, shared})
		if !shared {
			writes++
		}
	}
	if balance != writes {
		t.Errorf("%d writes, each of which adds 1, have made %d", writes, balance)
	}
	return events
}

// OldSnapshot opens a transaction that reads before a later holder acts, and then checks and acts with a lower token.
// It reports whether the second act took effect.
func (d Database) OldSnapshot(t *testing.T, level sql.IsolationLevel, old, later Actor) (stale bool, err error) {
	t.Helper()
	d.reset(t)
	ctx := t.Context()
	oldTx := d.begin(t, level)
	var balance int
	if err := oldTx.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil {
		t.Fatal(err)
	}
	laterTx := d.begin(t, level)
	if err := errors.Join(later.actOnce(ctx, laterTx, 512), laterTx.Commit()); err != nil {
		t.Fatal("the later holder: ", err)
	}
	if err = old.actOnce(ctx, oldTx, 256); err == nil {
		err = oldTx.Commit()
	}
	_ = oldTx.Rollback() // fails if it has committed
	var history string
	if err := d.QueryRowContext(ctx, `SELECT history FROM account`).Scan(&history); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(history, "256"), err
}

// BetweenCheckAndWrite lets a later holder write between the check and the write of another holder, which Naive cannot
// prevent. It reports whether the write with the lower token took effect.
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
	events := d.history(t)
	return events[len(events)-1].token == 256, err
}
