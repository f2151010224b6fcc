package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/internal/storetest"
)

// order checks several tokens in a row.
func (d Database) order(t *testing.T) {
	for name, checks := range d.checks() {
		t.Run(name, func(t *testing.T) {
			d.reset(t)
			if _, err := d.ExecContext(t.Context(), `UPDATE account SET fence = NULL, shared_fence = NULL`); err != nil {
				t.Fatal(err)
			}
			const exact = 1 << 53 // floating-point numbers represent all integers up to this one
			for _, c := range []struct {
				token     uint64
				rollsBack bool
				want      error
				seen      uint64
			}{
				{token: 0, want: lock.ErrInvalid},
				{token: 256},
				{token: 256},
				{token: 255, want: fence.ErrStale, seen: 256},
				{token: 1024, rollsBack: true},
				{token: 512},
				{token: 256, want: fence.ErrStale, seen: 512},
				{token: exact + 1},
				{token: exact, want: fence.ErrStale, seen: exact + 1},
				{token: math.MaxInt64},
				{token: math.MaxInt64 - 1, want: fence.ErrStale, seen: math.MaxInt64},
				{token: math.MaxInt64 + 1, want: lock.ErrInvalid},
			} {
				tx := d.begin(t, sql.LevelDefault)
				err := checks.Exclusive(t.Context(), tx, c.token)
				if !errors.Is(err, c.want) {
					t.Errorf("token %d: error %v, want %v", c.token, err, c.want)
				}
				stale := (*fence.StaleError)(nil)
				if errors.As(err, &stale) && (stale.Seen != c.seen || stale.Token != c.token || stale.Resource == "") {
					t.Errorf("token %d: error %+v, want seen %d", c.token, *stale, c.seen)
				}
				end := tx.Commit
				if c.rollsBack {
					end = tx.Rollback
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// names checks that different names have different tokens. Empty and overlong names, missing rows and unknown dialects
// must be refused.
func (d Database) names(t *testing.T) {
	d.reset(t)
	ctx := t.Context()
	tx := d.begin(t, sql.LevelDefault)
	names := []string{"a", "A", "a ", "a/b", "á", "ａ"}
	for i, name := range names {
		if err := d.table().Check(ctx, tx, name, uint64(len(names)-i)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", string(make([]byte, 1025))} {
		if err := d.table().Check(ctx, tx, name, 1); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("a name of %d bytes: error %v", len(name), err)
		}
	}
	if err := d.column().Check(ctx, tx, 8, 1); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no row: error %v", err)
	}
	if err := fence.NewTable(0, "fences").Check(ctx, tx, "a", 1); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("no dialect: error %v", err)
	}
}

// unfitColumns checks that no lower token passes after a higher one, even if the columns do not keep integers of 64
// bits. As text, 512 is above 1024. In MySQL without strict mode, a column that is too small keeps its highest number.
func (d Database) unfitColumns(t *testing.T) {
	const low, middle, high = 512, 1<<40 - 1, 1 << 40
	columns := fence.NewColumns(d.Dialect, "unfit", "id", "fence", "shared_fence")
	single := fence.NewColumn(d.Dialect, "unfit", "id", "fence")
	for _, kind := range []string{"text", "int"} {
		for name, raise := range map[string]func(context.Context, *sql.Tx, any, uint64) error{
			"writer": columns.Check, "reader": columns.CheckShared, "single": single.Check,
		} {
			for _, statement := range []string{
				`DROP TABLE IF EXISTS unfit`,
				fmt.Sprintf(`CREATE TABLE unfit (id bigint PRIMARY KEY, fence %s, shared_fence %[1]s)`, kind),
				`INSERT INTO unfit (id) VALUES (7)`,
			} {
				if _, err := d.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			passes := func(check func(context.Context, *sql.Tx, any, uint64) error, token uint64) bool {
				tx := d.begin(t, sql.LevelDefault)
				defer tx.Rollback()
				if d.Dialect == fence.MySQL {
					if _, err := tx.ExecContext(t.Context(), `SET sql_mode = ''`); err != nil {
						t.Fatal(err)
					}
				}
				err := check(t.Context(), tx, accountID, token)
				if d.Dialect == fence.MySQL { // the pool keeps the connection
					if _, err := tx.ExecContext(t.Context(), `SET sql_mode = DEFAULT`); err != nil {
						t.Fatal(err)
					}
				}
				return err == nil && tx.Commit() == nil
			}
			if passes(raise, low) && passes(raise, high) && passes(columns.Check, middle) {
				t.Errorf("%s columns, %s: a lower token has passed", kind, name)
			}
		}
	}
}

// waits lets a holder check its token while the transaction of a later holder is open. The check must wait for the end
// of that transaction, and pass only after a rollback.
func (d Database) waits(t *testing.T, level sql.IsolationLevel, old, later Actor) {
	for end, name := range []string{"commit", "rollback"} {
		d.reset(t)
		ctx := t.Context()
		for _, a := range []Actor{old, later} {
			first := d.begin(t, level)
			if err := errors.Join(a.Check(ctx, first, 1), first.Commit()); err != nil {
				t.Fatal(err)
			}
		}
		laterTx, oldTx := d.begin(t, level), d.begin(t, level)
		if err := later.Check(ctx, laterTx, 512); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			err := old.Check(ctx, oldTx, 256)
			if err == nil {
				err = oldTx.Commit()
			}
			done <- err
		}()
		storetest.Until(t, 20*time.Second, "the check waits", func() bool { return d.Waits(ctx) })
		if err := []func() error{laterTx.Commit, laterTx.Rollback}[end](); err != nil {
			t.Fatal(err)
		}
		if err := <-done; end == 0 && !d.refused(err) || end == 1 && err != nil {
			t.Errorf("after the later holder's %s: error %v", name, err)
		}
		_ = oldTx.Rollback()
	}
}
