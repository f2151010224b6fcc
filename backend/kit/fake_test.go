package kit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

var errNet = errors.New("connection reset")

// A fakeStore answers renewals and releases with the test's functions, and counts both.
type fakeStore struct {
	renew   func(ctx context.Context) error
	granted func(ttl time.Duration) time.Duration // nil: as requested
	release func(ctx context.Context) error
	rounds  backend.Guarantees

	renewals, releases atomic.Int64
}

func (f *fakeStore) Guarantees() backend.Guarantees { return f.rounds }

func (f *fakeStore) RenewLease(ctx context.Context, _ *Life, ttl time.Duration) (time.Duration, error) {
	f.renewals.Add(1)
	if f.granted != nil {
		ttl = f.granted(ttl)
	}
	if f.renew == nil {
		return ttl, nil
	}
	return ttl, f.renew(ctx)
}

func (f *fakeStore) ReleaseLease(ctx context.Context, _ *Life) error {
	f.releases.Add(1)
	if f.release == nil {
		return nil
	}
	return f.release(ctx)
}

// script returns a function that returns these errors one after the other, and then always the last one.
func script(errs ...error) func(context.Context) error {
	var calls atomic.Int64
	return func(context.Context) error { return errs[min(int(calls.Add(1)), len(errs))-1] }
}

// hang blocks until ctx ends, like a request that gets no reply.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// after returns a request that is answered after d, even if its context has ended.
func after(d time.Duration, err error) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d) // sleeps: in fake time
		return err
	}
}

const requestTimeout = time.Second

// bubble runs test in a synctest bubble, with a Leases on f that it closes at the end.
func bubble(t *testing.T, f *fakeStore, test func(t *testing.T, s *Leases)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := NewLeases(f, requestTimeout)
		defer s.Close()
		test(t, s)
	})
}

func grant(t *testing.T, s *Leases, ttl time.Duration) *Life {
	t.Helper()
	r := backend.Request{Key: "k", Owner: backend.NewOwner(), TTL: ttl}
	l, err := s.Grant(t.Context(), r, Grant{Token: 1, Sent: time.Now(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func isLost(l backend.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// life returns the time from the request for a lease of ttl to its deadline.
func life(ttl time.Duration) time.Duration { return ttl - backend.Margin(ttl) }

// wantErr checks that got matches want, or is nil if want is nil.
func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// wantLeft checks the time until l's deadline.
func wantLeft(t *testing.T, l backend.Lease, want time.Duration) {
	t.Helper()
	if got := time.Until(l.Deadline()); got != want {
		t.Errorf("deadline in %v, want %v", got, want)
	}
}

// wantLostAfter waits for the loss of l, and checks how long that takes.
func wantLostAfter(t *testing.T, l backend.Lease, want time.Duration) {
	t.Helper()
	start := time.Now()
	<-l.Lost()
	if got := time.Since(start); got != want {
		t.Errorf("lost after %v, want %v", got, want)
	}
}
