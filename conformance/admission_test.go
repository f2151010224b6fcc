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

// An admitting is a client of a correct store. It grants nothing while barred returns an error. Its capacity is room
// leases.
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

// admit runs checks on a store that grants nothing while barred returns an error. It also returns the errors that were
// passed to NotReady.
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

// If a store reports that it is not ready, the suite calls NotReady once, and waits until the store grants.
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

// If the store grants nothing, Execute returns an error and no results.
func TestGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results, _, err := admit(t, conformance.Options{}, 0,
			func() error { return fmt.Errorf("%w: nothing", backend.ErrUnavailable) })
		if err == nil || results != nil {
			t.Errorf("%d results, error %v", len(results), err)
		}
	})
}

// If the store stops granting during the suite, the remaining checks are not run.
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

// Execute returns ErrUnavailable if the server has room for fewer than 32 leases: 2 clients with 8 leases each, and 16
// more. A capacity of 0 means no limit.
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
