package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/internal/storetest"
)

// order checks one token after another.
func (d Database) order(t *testing.T) {
	for name, check := range d.checks() {
		t.Run(name, func(t *testing.T) {
			d.reset(t)
			if _, err := d.ExecContext(t.Context(), `UPDATE account SET fence = NULL`); err != nil {
				t.Fatal(err)
			}
			const exact = 1 << 53 // floating-point numbers are exact up to here
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
				err := check(t.Context(), tx, c.token)
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

// names checks that resources share a token only if they are the same, and that there is no token of nothing.
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

// waits lets a holder check while the transaction of a later one is open. It waits for that one's end, and passes only if it was rolled back.
func (d Database) waits(t *testing.T, level sql.IsolationLevel, check Check) {
	for end, name := range []string{"commit", "rollback"} {
		d.reset(t)
		ctx := t.Context()
		first := d.begin(t, level)
		if err := errors.Join(check(ctx, first, 1), first.Commit()); err != nil {
			t.Fatal(err)
		}
		later, old := d.begin(t, level), d.begin(t, level)
		if err := check(ctx, later, 512); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			err := check(ctx, old, 256)
			if err == nil {
				err = old.Commit()
			}
			done <- err
		}()
		storetest.Until(t, 20*time.Second, "the check waits", func() bool { return d.Waits(ctx) })
		if err := []func() error{later.Commit, later.Rollback}[end](); err != nil {
			t.Fatal(err)
		}
		if err := <-done; end == 0 && !d.refused(err) || end == 1 && err != nil {
			t.Errorf("after the later holder's %s: error %v", name, err)
		}
		_ = old.Rollback()
	}
}

// storm lets many holders write at once, half of them with tokens of the past. Transactions that the database refuses are begun again.
func (d Database) storm(t *testing.T, level sql.IsolationLevel, check Check) {
	d.reset(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	writers, writes := 8, 25
	if testing.Short() {
		writers, writes = 4, 10
	}
	var newest atomic.Uint64
	var stale atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range writes {
				token := newest.Add(1)
				if rand.IntN(2) == 0 {
					token = 1 + rand.Uint64N(token)
				}
				err := d.writeOnce(ctx, level, check, token)
				for err != nil && d.Again(err) && ctx.Err() == nil {
					err = d.writeOnce(ctx, level, check, token)
				}
				switch {
				case errors.Is(err, fence.ErrStale):
					stale.Add(1)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// One that is higher than all must pass, and be the last.
	last := newest.Add(1)
	if err := d.writeOnce(ctx, level, check, last); err != nil {
		t.Fatal(err)
	}
	tokens := d.history(t)
	for i := range tokens[1:] {
		if tokens[i] > tokens[i+1] {
			t.Fatalf("a write with token %d came after one with %d", tokens[i+1], tokens[i])
		}
	}
	if got := tokens[len(tokens)-1]; got != last {
		t.Errorf("the last write is with token %d, want %d", got, last)
	}
	if accepted := len(tokens) - 1; accepted+int(stale.Load()) != writers*writes {
		t.Errorf("%d writes and %d refusals of %d attempts", accepted, stale.Load(), writers*writes)
	}
}

func (d Database) writeOnce(ctx context.Context, level sql.IsolationLevel, check Check, token uint64) error {
	tx, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := check(ctx, tx, token); err != nil {
		return err
	}
	if err := write(ctx, tx, token); err != nil {
		return err
	}
	return tx.Commit()
}
