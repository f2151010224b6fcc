package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/fence"
)

// storm lets many holders act at the same time, half of them with old tokens. If the resource has readers, half of the
// holders are readers. storm retries the transactions that the database aborts.
func (d Database) storm(t *testing.T, level sql.IsolationLevel, checks Checks) {
	d.reset(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	workers, acts := 8, 25
	if testing.Short() {
		workers, acts = 4, 10
	}
	var newest atomic.Uint64
	var stale atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range acts {
				token := newest.Add(1)
				if rand.IntN(2) == 0 {
					token = 1 + rand.Uint64N(token)
				}
				actor := Writer(checks.Exclusive)
				if checks.Shared != nil && rand.IntN(2) == 0 {
					actor = reader(checks.Shared)
				}
				err := d.transact(ctx, level, actor, token)
				for err != nil && d.Again(err) && ctx.Err() == nil {
					err = d.transact(ctx, level, actor, token)
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
	// A writer whose token is above all others must be accepted, and its write must be the last.
	last := newest.Add(1)
	if err := d.transact(ctx, level, Writer(checks.Exclusive), last); err != nil {
		t.Fatal(err)
	}
	events := d.history(t)
	ordered(t, events)
	if got := events[len(events)-1].token; got != last {
		t.Errorf("the last write is with token %d, want %d", got, last)
	}
	if accepted := len(events) - 1; accepted+int(stale.Load()) != workers*acts {
		t.Errorf("%d acts and %d refusals of %d attempts", accepted, stale.Load(), workers*acts)
	}
}

// ordered fails the test if a holder acts after another with a higher token, and the two exclude each other.
func ordered(t *testing.T, events []event) {
	t.Helper()
	var exclusive, shared uint64
	for _, e := range events {
		seen := exclusive
		if e.shared {
			shared = max(shared, e.token)
		} else {
			seen = max(exclusive, shared)
			exclusive = e.token
		}
		if e.token < seen {
			t.Fatalf("%+v came after a token %d that excludes it: %v", e, seen, events)
		}
	}
}

// transact checks the token and acts in one transaction.
func (d Database) transact(ctx context.Context, level sql.IsolationLevel, a Actor, token uint64) error {
	tx, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := a.actOnce(ctx, tx, token); err != nil {
		return err
	}
	return tx.Commit()
}
