package backend

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeStore answers renewals and releases as told.
type fakeStore struct {
	renew   func(ctx context.Context) error
	release func(ctx context.Context) error
}

func (f *fakeStore) RenewLease(ctx context.Context, _ *Life, ttl time.Duration) (time.Duration, error) {
	if f.renew == nil {
		return ttl, nil
	}
	return ttl, f.renew(ctx)
}

func (f *fakeStore) ReleaseLease(ctx context.Context, _ *Life) error {
	if f.release == nil {
		return nil
	}
	return f.release(ctx)
}

func grant(t *testing.T, s *Leases, ttl time.Duration) *Life {
	t.Helper()
	r := Request{Key: "k", Owner: NewOwner(), TTL: ttl}
	l, err := s.Grant(t.Context(), r, Grant{Token: 1, Sent: time.Now(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func isLost(l Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// A renewal that hangs must not keep Lost from closing at the deadline.
func TestHungRenewalLosesAtDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewLeases(&fakeStore{renew: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}, time.Second)
		start := time.Now()
		l := grant(t, s, 10*time.Second)
		time.Sleep(5 * time.Second)
		errs := make(chan error)
		go func() { errs <- l.Renew(t.Context(), 10*time.Second) }()
		<-l.Lost()
		if got, want := time.Since(start), 10*time.Second-Margin(10*time.Second); got != want {
			t.Errorf("lost after %v, want %v", got, want)
		}
		if err := <-errs; !errors.Is(err, ErrLost) {
			t.Errorf("renew: %v, want ErrLost", err)
		}
		s.Close()
	})
}
