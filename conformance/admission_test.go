package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// An admitting is a right store that may be barred, and has room for so many.
type admitting struct {
	backend.Backend
	barred func() error
	room   int
}

func (a *admitting) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	for {
		err := a.barred()
		switch {
		case err == nil:
			return a.Backend.Acquire(ctx, r)
		case !r.Wait:
			return nil, err
		case kit.Sleep(ctx, time.Second) != nil:
			return nil, kit.ContextError(ctx, nil)
		}
	}
}

func (a *admitting) NotReady() error { return a.barred() }

func (a *admitting) Capacity(context.Context) (int, error) { return a.room, nil }

// admit runs checks on a store that is barred while barred returns an error. It also returns the calls of NotReady.
func admit(t *testing.T, o conformance.Options, room int, barred func() error) (
	results []conformance.Result, notReady []string, err error,
) {
	t.Helper()
	s := newServer("")
	t.Cleanup(func() { close(s.stop) })
	h := s.harness()
	open := h.Open
	h = conformance.Harness{Open: func(ctx context.Context) (backend.Backend, error) {
		b, err := open(ctx)
		return &admitting{b, barred, room}, err
	}}
	o.NotReady = func(err error) { notReady = append(notReady, err.Error()) }
	results, err = conformance.Execute(t.Context(), h, o)
	return results, notReady, err
}

func never() error { return nil }

// The suite waits once for a store that reports why it cannot grant yet.
func TestWaitsForYoungStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		young := time.Now().Add(time.Minute)
		results, notReady, err := admit(t, conformance.Options{Run: only("WaiterGetsReleasedKey")}, 0, func() error {
			if time.Now().Before(young) {
				return fmt.Errorf("%w: too young", backend.ErrUnavailable)
			}
			return nil
		})
		if err != nil || len(results) != 1 || len(notReady) != 1 || !strings.Contains(notReady[0], "too young") {
			t.Fatalf("NotReady got %q, error %v", notReady, err)
		}
		for _, r := range results {
			if r.Status != conformance.Pass {
				t.Errorf("%s: %s", r.Name, r.Output)
			}
		}
	})
}

// A store that grants nothing is no store whose every check fails.
func TestGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results, _, err := admit(t, conformance.Options{}, 0,
			func() error { return fmt.Errorf("%w: nothing", backend.ErrUnavailable) })
		if err == nil || results != nil {
			t.Errorf("%d results, error %v", len(results), err)
		}
	})
}

// When a store no longer grants anything, the remaining checks are not run.
func TestGrantsNothingAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		results, _, err := admit(t, conformance.Options{
			Parallel: 1, Began: func(c conformance.Check) { ended.Store(c.Name != "ClientsShareStore") },
		}, 0, func() error {
			if ended.Load() {
				return errors.New("gone")
			}
			return nil
		})
		failed, interrupted := 0, 0
		for _, r := range results {
			switch {
			case r.Interrupted:
				interrupted++
			case r.Status == conformance.Fail:
				failed++
			}
		}
		if err != nil || failed != 1 || interrupted < 50 {
			t.Errorf("%d checks failed, %d were not run, error %v", failed, interrupted, err)
		}
	})
}

// Checks request no more leases than the server can hold: here 2 clients with 8 leases each, and a few more.
func TestKeepsToCapacity(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		room  int
		wrong bool
	}{{31, true}, {32, false}, {0, false}} {
		results, _, err := admit(t, conformance.Options{Run: only("KeysAreBytes")}, test.room, never)
		if test.wrong != errors.Is(err, backend.ErrUnavailable) || !test.wrong &&
			(err != nil || results[0].Status != conformance.Pass) {
			t.Errorf("room for %d: %v, error %v", test.room, results, err)
		}
	}
}
