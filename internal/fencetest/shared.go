package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
)

// sharedOrder checks several tokens of both modes in a row. It also commits after refused checks, which callers do not
// do.
func (d Database) sharedOrder(t *testing.T) {
	for name, checks := range d.checks() {
		t.Run(name, func(t *testing.T) {
			d.reset(t)
			if checks.Shared == nil {
				tx := d.begin(t, sql.LevelDefault)
				if err := d.column().CheckShared(t.Context(), tx, accountID, 1); !errors.Is(err, lock.ErrInvalid) {
					t.Errorf("no column for shared tokens: error %v", err)
				}
				return
			}
			if _, err := d.ExecContext(t.Context(), `UPDATE account SET fence = NULL, shared_fence = NULL`); err != nil {
				t.Fatal(err)
			}
			read, write := checks.Shared, checks.Exclusive
			for i, c := range []struct {
				check Check
				token uint64
				want  error
				seen  uint64
			}{
				{check: read, token: 0, want: lock.ErrInvalid},
				{check: read, token: 512},
				{check: read, token: 256}, // a second reader at the same time
				{check: write, token: 300, want: fence.ErrStale, seen: 512},
				{check: read, token: 512},
				{check: write, token: 768},
				{check: read, token: 512, want: fence.ErrStale, seen: 768},
				{check: write, token: 768},
				{check: write, token: 767, want: fence.ErrStale, seen: 768},
				{check: read, token: math.MaxInt64},
				{check: write, token: math.MaxInt64 - 1, want: fence.ErrStale, seen: math.MaxInt64},
				{check: write, token: math.MaxInt64},
				{check: read, token: math.MaxInt64 + 1, want: lock.ErrInvalid},
			} {
				tx := d.begin(t, sql.LevelDefault)
				err := c.check(t.Context(), tx, c.token)
				if !errors.Is(err, c.want) {
					t.Errorf("check %d, token %d: error %v, want %v", i, c.token, err, c.want)
				}
				if stale, ok := errors.AsType[*fence.StaleError](err); ok && stale.Seen != c.seen {
					t.Errorf("check %d: error %+v, want seen %d", i, *stale, c.seen)
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// histories runs random histories, as TestGuardHistories of package fence does.
func (d Database) histories(t *testing.T) {
	histories := 30
	if testing.Short() {
		histories = 5
	}
	const steps = 40
	for name, checks := range d.checks() {
		if checks.Shared == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var total Verdict
			d.reset(t)
			for range histories {
				d.forgetTokens(t)
				v, err := History(random, scheme{t.Context(), d, checks}, steps)
				if err != nil {
					t.Fatal(err)
				}
				total.Add(v)
			}
			if total.LiveRefused+total.StaleAccepted > 0 || total.Live*total.Stale == 0 {
				t.Errorf("%+v", total)
			}
		})
	}
}

func (d Database) forgetTokens(t *testing.T) {
	t.Helper()
	for _, statement := range []string{`UPDATE account SET fence = 0, shared_fence = 0`, `DELETE FROM fences`} {
		if _, err := d.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// A scheme checks each token in its own transaction, and commits even if the token is refused.
type scheme struct {
	ctx    context.Context
	d      Database
	checks Checks
}

func (s scheme) Check(token uint64) error       { return s.check(s.checks.Exclusive, token) }
func (s scheme) CheckShared(token uint64) error { return s.check(s.checks.Shared, token) }

func (s scheme) check(check Check, token uint64) error {
	tx, err := s.d.BeginTx(s.ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	err = check(s.ctx, tx, token)
	if commit := tx.Commit(); commit != nil {
		return commit
	}
	return err
}
