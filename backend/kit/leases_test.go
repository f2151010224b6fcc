package kit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

func TestGrant(t *testing.T) {
	f := new(fakeStore)
	bubble(t, f, func(t *testing.T, s *Leases) {
		r := backend.Request{Key: "a key", Owner: "an owner", TTL: 10 * time.Second}
		sent := time.Now()
		time.Sleep(time.Second) // the reply arrives late
		l, err := s.Grant(t.Context(), r, Grant{Token: 42, Sent: sent, TTL: 12 * time.Second, Data: "data"})
		if err != nil {
			t.Fatal(err)
		}
		if l.Key() != r.Key || l.Owner() != r.Owner || l.Token() != 42 || l.Data != "data" {
			t.Errorf("got %q %q %d %v", l.Key(), l.Owner(), l.Token(), l.Data)
		}
		wantLeft(t, l, life(12*time.Second)-time.Second) // the granted TTL, counted from before sending
		if s.Len() != 1 || isLost(l) {
			t.Errorf("%d live, lost %v", s.Len(), isLost(l))
		}
		wantLostAfter(t, l, life(12*time.Second)-time.Second)
		if s.Len() != 0 {
			t.Errorf("%d live after the loss", s.Len())
		}
	})
}

// If a grant cannot be used, the lease is released.
func TestUselessGrantIsGivenBack(t *testing.T) {
	cause := errors.New("because")
	for _, test := range []struct {
		name string
		age  time.Duration // of the request
		ctx  func(context.Context) (context.Context, func())
		want []error
	}{
		{"ended context", 0, func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx, func() {}
		}, []error{context.Canceled, cause}},
		{"expired context", 0, func(ctx context.Context) (context.Context, func()) {
			return context.WithDeadline(ctx, time.Now())
		}, []error{context.DeadlineExceeded}},
		{"late reply", life(time.Minute), nil, []error{backend.ErrLost}},
		{"reply later than the TTL", time.Hour, nil, []error{backend.ErrLost}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := new(fakeStore)
			bubble(t, f, func(t *testing.T, s *Leases) {
				ctx := t.Context()
				if test.ctx != nil {
					var cancel func()
					ctx, cancel = test.ctx(ctx)
					defer cancel()
				}
				r := backend.Request{Key: "k", Owner: "o", TTL: time.Minute}
				l, err := s.Grant(ctx, r, Grant{Sent: time.Now().Add(-test.age), TTL: time.Minute})
				if l != nil || s.Len() != 0 {
					t.Errorf("got a lease; %d live", s.Len())
				}
				for _, want := range test.want {
					wantErr(t, "grant", err, want)
				}
				s.Close() // waits for the clean-up
				if n := f.releases.Load(); n != 1 {
					t.Errorf("%d releases", n)
				}
			})
		})
	}
}

// A grant that arrives an instant before its deadline is valid.
func TestGrantJustInTime(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		sent := time.Now().Add(1 - life(time.Minute))
		l, err := s.Grant(t.Context(), backend.Request{Key: "k", Owner: "o"}, Grant{Sent: sent, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		wantLostAfter(t, l, 1)
	})
}

// If the TTL is not longer than its margin, every grant arrives after its deadline.
func TestGrantOfTinyTTL(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		for _, ttl := range []time.Duration{1, time.Microsecond, 2 * time.Millisecond} {
			_, err := s.Grant(t.Context(), backend.Request{Key: "k", Owner: "o"}, Grant{Sent: time.Now(), TTL: ttl})
			wantErr(t, ttl.String(), err, backend.ErrLost)
		}
		wantLostAfter(t, grant(t, s, 3*time.Millisecond), life(3*time.Millisecond))
	})
}

// One timer ends each lease at its deadline, in whatever order the deadlines were set.
func TestDeadlinesOfManyLeases(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		var leases []*Life
		for _, seconds := range []time.Duration{5, 1, 9, 3, 7, 2, 8, 4, 6} {
			leases = append(leases, grant(t, s, seconds*time.Second))
		}
		for left := len(leases); left > 0; left-- {
			if s.Len() != left {
				t.Fatalf("%d live, want %d", s.Len(), left)
			}
			time.Sleep(time.Second)
			for _, l := range leases {
				if over := !time.Now().Before(l.Deadline()); isLost(l) != over {
					t.Errorf("deadline in %v: lost is %v", time.Until(l.Deadline()), isLost(l))
				}
			}
		}
	})
}

// The timer moves when a lease with an earlier deadline is granted, and when the lease with the earliest deadline is
// released or renewed.
func TestTimerMoves(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		late := grant(t, s, time.Minute)
		early := grant(t, s, time.Second)
		wantLostAfter(t, early, life(time.Second))
		released := grant(t, s, time.Second)
		wantErr(t, "release", released.Release(t.Context()), nil)
		wantErr(t, "renew", late.Renew(t.Context(), 2*time.Minute), nil)
		wantLostAfter(t, late, life(2*time.Minute))
		wantLostAfter(t, grant(t, s, time.Second), life(time.Second)) // after a time without leases
	})
}
