package kit

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

func TestRenewCountsFromBeforeSending(t *testing.T) {
	f := &fakeStore{
		renew:   after(400*time.Millisecond, nil),
		granted: func(ttl time.Duration) time.Duration { return ttl + 5*time.Second },
	}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, 10*time.Second)
		time.Sleep(6 * time.Second)
		wantErr(t, "renew", l.Renew(t.Context(), 20*time.Second), nil)
		wantLeft(t, l, life(25*time.Second)-400*time.Millisecond)
		wantLostAfter(t, l, life(25*time.Second)-400*time.Millisecond)
		wantErr(t, "renew after the loss", l.Renew(t.Context(), time.Second), backend.ErrLost)
		if n := f.renewals.Load(); n != 1 {
			t.Errorf("%d requests: a lease that is over must not send any", n)
		}
	})
}

func TestRenewRefusesBadTTL(t *testing.T) {
	for _, longest := range []time.Duration{0, time.Hour} {
		refusesBadTTL(t, &fakeStore{rounds: backend.Guarantees{MaxTTL: longest}}, cmp.Or(longest, backend.MaxTTL)+1)
	}
}

func refusesBadTTL(t *testing.T, f *fakeStore, tooLong time.Duration) {
	t.Helper()
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		for _, ttl := range []time.Duration{0, -1, tooLong} {
			wantErr(t, ttl.String(), l.Renew(t.Context(), ttl), backend.ErrInvalid)
			errs := s.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: ttl}}, nil)
			wantErr(t, ttl.String()+" in a batch", errs[0], backend.ErrInvalid)
		}
		if f.renewals.Load() != 0 {
			t.Error("sent a request")
		}
		wantLeft(t, l, life(time.Minute))
	})
}

// Lost closes at the deadline, even if a renewal hangs.
func TestHungRenewalLosesAtDeadline(t *testing.T) {
	bubble(t, &fakeStore{renew: hang}, func(t *testing.T, s *Leases) {
		start := time.Now()
		l := grant(t, s, 10*time.Second)
		time.Sleep(5 * time.Second)
		errs := make(chan error)
		go func() { errs <- l.Renew(t.Context(), 10*time.Second) }()
		<-l.Lost()
		if got, want := time.Since(start), life(10*time.Second); got != want {
			t.Errorf("lost after %v, want %v", got, want)
		}
		wantErr(t, "renew", <-errs, backend.ErrLost)
	})
}

// If a store ignores its context and confirms a renewal after the deadline, the lease stays lost. Only the holder's
// Release ends what the store has extended: since the loss, another process may have resumed it.
func TestLateAnswerNeverRevives(t *testing.T) {
	f := &fakeStore{renew: after(time.Minute, nil)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, 10*time.Second)
		errs := make(chan error)
		go func() { errs <- l.Renew(t.Context(), time.Hour) }()
		wantLostAfter(t, l, life(10*time.Second))
		wantErr(t, "renew", <-errs, backend.ErrLost)
		time.Sleep(time.Minute) // sleeps: in fake time
		if n := f.releases.Load(); n != 0 {
			t.Errorf("%d releases, although the holder has not called Release", n)
		}
		wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
		wantErr(t, "again", l.Release(t.Context()), backend.ErrLost)
		synctest.Wait()
		if n := f.releases.Load(); n != 1 {
			t.Errorf("what the late renewal prolonged was given back %d times, want once", n)
		}
		if l.Deadline().After(time.Now()) {
			t.Error("the deadline is in the future")
		}
	})
}

// A reply at the instant of the deadline is too late, even if the timer has not fired yet.
func TestAnswerAtTheDeadlineIsTooLate(t *testing.T) {
	for range 20 { // chance decides whether the reply or the timer is first
		f := new(fakeStore)
		bubble(t, f, func(t *testing.T, s *Leases) {
			l := grant(t, s, 10*time.Second)
			f.renew = after(life(10*time.Second), nil)
			wantErr(t, "renew", l.Renew(t.Context(), time.Hour), backend.ErrLost)
			if !isLost(l) {
				t.Error("Lost is open")
			}
		})
	}
}

// A renewal to a shorter TTL brings the deadline nearer before it is sent, because its reply may never arrive.
func TestShorterRenewalCapsBeforeSending(t *testing.T) {
	var l *Life
	var seen time.Duration
	f := &fakeStore{renew: func(ctx context.Context) error {
		seen = time.Until(l.Deadline())
		return hang(ctx)
	}}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l = grant(t, s, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantErr(t, "renew", l.Renew(ctx, time.Second), context.DeadlineExceeded)
		if seen != life(time.Second) {
			t.Errorf("while the request is under way the deadline is in %v, want %v", seen, life(time.Second))
		}
		wantLostAfter(t, l, life(time.Second)-100*time.Millisecond)
	})
}

func TestShorterRenewalThatIsGranted(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		wantErr(t, "renew", l.Renew(t.Context(), time.Second), nil)
		wantLostAfter(t, l, life(time.Second))
	})
}

// If a renewal that would move the deadline away gets no reply, the old deadline applies, and another attempt is safe.
func TestUnknownRenewalKeepsTheDeadline(t *testing.T) {
	f := &fakeStore{renew: script(errNet, errNet, nil)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, 10*time.Second)
		time.Sleep(time.Second)
		for range 2 {
			wantErr(t, "renew", l.Renew(t.Context(), 10*time.Second), errNet)
			wantLeft(t, l, life(10*time.Second)-time.Second)
		}
		wantErr(t, "renew", l.Renew(t.Context(), 10*time.Second), nil)
		wantLeft(t, l, life(10*time.Second))
	})
}

// A short renewal without a reply may arrive after a longer renewal that was granted, and shorten the lease. The
// deadline allows for that.
func TestStragglerOfAShorterRenewal(t *testing.T) {
	f := &fakeStore{renew: script(errNet, nil)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, 10*time.Second)
		wantErr(t, "renew", l.Renew(t.Context(), 2*time.Second), errNet)
		wantErr(t, "renew", l.Renew(t.Context(), time.Minute), nil)
		wantLeft(t, l, life(2*time.Second))
		time.Sleep(time.Second) // the network may deliver the short renewal at any later time
		wantErr(t, "renew", l.Renew(t.Context(), time.Minute), nil)
		wantLeft(t, l, life(2*time.Second))
		wantErr(t, "renew for less", l.Renew(t.Context(), time.Second), nil)
		wantLeft(t, l, life(time.Second))
	})
}

func TestRenewalThatTheStoreRefuses(t *testing.T) {
	f := &fakeStore{renew: script(backend.ErrLost)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		wantErr(t, "renew", l.Renew(t.Context(), time.Minute), backend.ErrLost)
		if !isLost(l) || s.Len() != 0 {
			t.Errorf("lost %v, %d live", isLost(l), s.Len())
		}
		wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
		if f.releases.Load() != 0 {
			t.Error("sent a release for what the store has said is gone")
		}
	})
}

func TestRenewWithEndedContext(t *testing.T) {
	f := new(fakeStore)
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, "renew", l.Renew(ctx, time.Second), context.Canceled)
		wantLeft(t, l, life(time.Minute))
		if f.renewals.Load() != 0 {
			t.Error("sent a request")
		}
	})
}

// Renewals of one lease run one after the other. A renewal that waits for another ends with its context, or with the
// lease.
func TestConcurrentRenewals(t *testing.T) {
	f := &fakeStore{renew: hang}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, 10*time.Second)
		first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { first <- l.Renew(t.Context(), time.Minute) }()
		synctest.Wait()
		go func() { second <- l.Renew(t.Context(), time.Minute) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { third <- l.Renew(ctx, time.Minute) }()
		wantErr(t, "a waiting renewal whose context ends", <-third, context.DeadlineExceeded)
		wantErr(t, "the first", <-first, backend.ErrLost)
		wantErr(t, "the second", <-second, backend.ErrLost)
		if n := f.renewals.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestWaitingRenewalGoesOn(t *testing.T) {
	f := &fakeStore{renew: after(time.Second, nil)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, 10*time.Second)
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- l.Renew(t.Context(), 10*time.Second) }()
		}
		wantErr(t, "first", <-errs, nil)
		wantErr(t, "second", <-errs, nil)
		wantLeft(t, l, life(10*time.Second)-time.Second) // the second was sent when the first had ended
	})
}

func TestRenewAfterReleaseAndClose(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		released, open := grant(t, s, time.Minute), grant(t, s, time.Minute)
		wantErr(t, "release", released.Release(t.Context()), nil)
		wantErr(t, "renew a released lease", released.Renew(t.Context(), time.Minute), backend.ErrLost)
		s.Close()
		wantErr(t, "renew after close", open.Renew(t.Context(), time.Minute), backend.ErrClosed)
	})
}

// A renewal to a TTL that the store does not grant is rounded up to one that it grants. It does not fail, and does not
// end the lease.
func TestRenewRoundsUp(t *testing.T) {
	f := &fakeStore{rounds: backend.Guarantees{MinTTL: 10 * time.Second, Granularity: time.Second}}
	bubble(t, f, func(t *testing.T, s *Leases) {
		for asked, granted := range map[time.Duration]time.Duration{
			1: 10 * time.Second, 10*time.Second - 1: 10 * time.Second, 10*time.Second + 1: 11 * time.Second,
		} {
			l := grant(t, s, time.Minute)
			wantErr(t, "renew for "+asked.String(), l.Renew(t.Context(), asked), nil)
			wantLeft(t, l, life(granted))
			l = grant(t, s, time.Minute)
			for _, err := range s.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: asked}}, answers(0, nil)) {
				wantErr(t, "renew in a batch", err, nil)
			}
			wantLeft(t, l, life(granted))
		}
	})
}
