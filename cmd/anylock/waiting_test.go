package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// A slowStore is not ready before the time ready. Its keys are held by somebody.
type slowStore struct{ ready time.Time }

func (s slowStore) NotReady() error {
	if left := time.Until(s.ready); left > 0 {
		return &lock.Error{Op: "acquire", Backend: "redlock", Err: fmt.Errorf("node 2 cannot vote for %v", left)}
	}
	return nil
}

func (s slowStore) Inspect(context.Context, string) (lock.Holder, error) {
	return lock.Holder{Owner: "somebody"}, nil
}

// If the store is not ready, a waiter reads this at once. Later it reads who holds the key, but only with --verbose or
// at a terminal.
func TestTellWaiting(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, test := range []struct {
		bar, wait time.Duration
		verbose   bool
		want      []string
	}{
		{0, time.Second, true, nil},
		{0, 3 * time.Second, false, nil},
		{0, 9 * time.Second, true, []string{"waiting for k, held by somebody"}},
		{time.Minute, time.Millisecond, false, []string{"k: waiting: redlock: node 2 cannot vote for 1m0s"}},
		{5 * time.Second, time.Minute, true, []string{"k: waiting: redlock: node 2 cannot vote for 5s",
			"waiting for k, held by somebody"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said []string
			r := &runner{app: &app{stderr: null, verbose: test.verbose}, key: "k"}
			r.notices = newNotices(func(line string) { said = append(said, line) })
			stop := r.reportWaiting(t.Context(), slowStore{time.Now().Add(test.bar)})
			time.Sleep(test.wait)
			stop()
			r.notices.close()
			if !slices.Equal(said, test.want) {
				t.Errorf("%+v: said %q", test, said)
			}
		})
	}
}

// Only a held key ends with the exit code for a conflict. A caller that skips its work because the key is held must not
// skip it because the store is unavailable.
func TestRefusal(t *testing.T) {
	r := &runner{key: "k", conflictExit: 75}
	held := &lock.HeldError{Holder: lock.Holder{Owner: "somebody"}}
	for _, test := range []struct {
		err  error
		code int
	}{
		{held, 75},
		{fmt.Errorf("%w: i/o timeout", lock.ErrUnavailable), exitUnavailable},
		{fmt.Errorf("%w (last error: %w)", lock.ErrUnavailable, held), exitUnavailable},
		{errors.New("connection refused"), exitUnavailable},
		{backend.ErrInvalid, exitUsage},
	} {
		err := r.refusal(t.Context(), nil, &lock.Error{Op: "acquire", Err: test.err})
		if exit := (*exitError)(nil); !errors.As(err, &exit) || exit.code != test.code {
			t.Errorf("%v: %v, want exit %d", test.err, err, test.code)
		}
	}
}

// hold does not give up if the store first grants only to waiters, as Redlock does while nodes may not vote.
func TestHoldWaitsForTheStore(t *testing.T) {
	locks, err := lock.New(forWaiters{memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	r := &runner{app: &app{stderr: os.Stderr}, key: "k", inputEnded: make(chan struct{})}
	lease, err := r.acquire(t.Context(), locks)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

type forWaiters struct{ backend.Backend }

func (s forWaiters) Guarantees() backend.Guarantees {
	g := s.Backend.Guarantees()
	g.Reach = backend.ReachNetwork // with this reach, package lock waits in the store from the first request
	return g
}

func (s forWaiters) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if !r.Wait {
		return nil, backend.ErrUnavailable
	}
	return s.Backend.Acquire(ctx, r)
}
