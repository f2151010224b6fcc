package kit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

func TestCloseLosesWhatIsHeld(t *testing.T) {
	f := new(fakeStore)
	bubble(t, f, func(t *testing.T, s *Leases) {
		var leases []*Life
		called := 0
		for range 5 {
			l := grant(t, s, time.Minute)
			l.OnLost(func() { called++ })
			leases = append(leases, l)
		}
		released, expired := leases[0], grant(t, s, time.Second)
		wantErr(t, "release", released.Release(t.Context()), nil)
		<-expired.Lost()
		if !s.Close() || s.Close() || !s.Closed() || s.Len() != 0 {
			t.Error("Close does not tell the first call from the second")
		}
		for _, l := range leases[1:] {
			if !isLost(l) {
				t.Error("Lost is open")
			}
			wantErr(t, "renew", l.Renew(t.Context(), time.Minute), backend.ErrClosed)
			wantErr(t, "release", l.Release(t.Context()), backend.ErrClosed)
		}
		if called != 4 || isLost(released) {
			t.Errorf("called %d times; the released one lost: %v", called, isLost(released))
		}
		wantErr(t, "release of the released", released.Release(t.Context()), nil)
		wantErr(t, "release of the expired", expired.Release(t.Context()), backend.ErrLost)
		if n := f.releases.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestGrantAfterCloseIsGivenBack(t *testing.T) {
	f := new(fakeStore)
	bubble(t, f, func(t *testing.T, s *Leases) {
		s.Close()
		_, err := s.Grant(t.Context(), backend.Request{Key: "k", Owner: "o"}, Grant{Sent: time.Now(), TTL: time.Minute})
		wantErr(t, "grant", err, backend.ErrClosed)
		synctest.Wait()
		if f.releases.Load() != 1 {
			t.Errorf("%d releases", f.releases.Load())
		}
		s.Abandon(backend.Request{Key: "k", Owner: "o"}, time.Minute) // does nothing
		synctest.Wait()
		if f.releases.Load() != 1 {
			t.Error("Abandon after Close sends requests")
		}
	})
}

// Close waits for a release that is under way. It ends a release that hangs after closeGrace.
func TestCloseDuringRelease(t *testing.T) {
	for _, test := range []struct {
		name    string
		release func(context.Context) error
		takes   time.Duration
		want    error
		lost    bool
	}{
		{"answered", after(300*time.Millisecond, nil), 300 * time.Millisecond, nil, false},
		{"hung", hang, closeGrace, backend.ErrClosed, true},
		{"failed", after(300*time.Millisecond, errNet), 300 * time.Millisecond, backend.ErrClosed, true},
		{"nothing there", after(300*time.Millisecond, backend.ErrLost), 300 * time.Millisecond, backend.ErrLost, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewLeases(&fakeStore{release: test.release}, 10*time.Second)
				l := grant(t, s, time.Minute)
				called := 0
				l.OnLost(func() { called++ })
				errs := make(chan error, 1)
				go func() { errs <- l.Release(t.Context()) }()
				synctest.Wait()
				start := time.Now()
				s.Close()
				if got := time.Since(start); got != test.takes {
					t.Errorf("Close takes %v, want %v", got, test.takes)
				}
				wantErr(t, "release", <-errs, test.want)
				if isLost(l) != test.lost || (called == 1) != test.lost {
					t.Errorf("lost %v, called %d times", isLost(l), called)
				}
			})
		})
	}
}

// The release of a lost lease, which an unanswered renewal may have extended, ends with Close like any other.
func TestCloseDuringReleaseOfLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{renew: script(errNet), release: hang}
		s := NewLeases(f, 10*time.Second)
		l := grant(t, s, time.Second)
		wantErr(t, "renew", l.Renew(t.Context(), time.Minute), errNet)
		<-l.Lost()
		errs := make(chan error, 1)
		go func() { errs <- l.Release(t.Context()) }()
		synctest.Wait()
		start := time.Now()
		s.Close()
		if got := time.Since(start); got != closeGrace || f.releases.Load() != 1 || !s.Idle() {
			t.Errorf("Close takes %v, want %v; %d releases; idle: %v", got, closeGrace, f.releases.Load(), s.Idle())
		}
		wantErr(t, "release", <-errs, backend.ErrLost)
	})
}

func TestCloseEndsHungRenewals(t *testing.T) {
	bubble(t, &fakeStore{renew: hang}, func(t *testing.T, s *Leases) {
		l, m := grant(t, s, time.Hour), grant(t, s, time.Hour)
		errs := make(chan error, 2)
		go func() { errs <- l.Renew(t.Context(), time.Hour) }()
		go func() { errs <- s.RenewBatch(t.Context(), []backend.Renewal{{Lease: m, TTL: time.Hour}}, hungBatch)[0] }()
		synctest.Wait()
		start := time.Now()
		s.Close()
		wantErr(t, "renew", <-errs, backend.ErrClosed)
		wantErr(t, "renew", <-errs, backend.ErrClosed)
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
	})
}

// Close waits for renewals, even if they ignore their contexts, because they use the client's connections.
func TestCloseWaitsForRenewals(t *testing.T) {
	const takes = 300 * time.Millisecond
	closes := func(t *testing.T, s *Leases, renew func() error) {
		wantErr(t, "renew", renew(), nil)
		if !s.Idle() {
			t.Error("a renewal that has ended counts as work under way")
		}
		errs := make(chan error, 1)
		go func() { errs <- renew() }()
		synctest.Wait()
		start := time.Now()
		s.Close()
		if got := time.Since(start); got != takes {
			t.Errorf("Close takes %v, want %v", got, takes)
		}
		wantErr(t, "renew", <-errs, backend.ErrClosed)
	}
	t.Run("alone", func(t *testing.T) {
		bubble(t, &fakeStore{renew: after(takes, nil)}, func(t *testing.T, s *Leases) {
			l := grant(t, s, time.Hour)
			closes(t, s, func() error { return l.Renew(t.Context(), time.Hour) })
		})
	})
	t.Run("batch", func(t *testing.T) {
		bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
			batch := []backend.Renewal{{Lease: grant(t, s, time.Hour), TTL: time.Hour}}
			closes(t, s, func() error { return s.RenewBatch(t.Context(), batch, answers(takes, nil))[0] })
		})
	})
}

func hungBatch(ctx context.Context, lives []*Life, _ []time.Duration) ([]time.Duration, []error) {
	<-ctx.Done()
	errs := make([]error, len(lives))
	for i := range errs {
		errs[i] = ctx.Err()
	}
	return nil, errs
}

// After Close, a release of unknown outcome is not repeated.
func TestReleaseAgainAfterClose(t *testing.T) {
	f := &fakeStore{release: script(errNet)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		wantErr(t, "release", l.Release(t.Context()), errNet)
		s.Close()
		before := f.releases.Load()
		wantErr(t, "release", l.Release(t.Context()), backend.ErrClosed)
		if f.releases.Load() != before {
			t.Error("sent a request after Close")
		}
		if !isLost(l) {
			t.Error("Lost is open")
		}
	})
}

// Close waits for clean-ups that hang, for closeGrace at most.
func TestCloseBoundsCleanUps(t *testing.T) {
	f := &fakeStore{release: hang}
	bubble(t, f, func(t *testing.T, s *Leases) {
		s.Abandon(backend.Request{Key: "k", Owner: "o"}, time.Hour)
		time.Sleep(time.Minute)
		start := time.Now()
		s.Close()
		if got := time.Since(start); got != closeGrace {
			t.Errorf("Close takes %v, want %v", got, closeGrace)
		}
	})
}

// If a clean-up has an answer and only checks for late arrivals, Close does not wait that long: the clean-up makes one
// more request and stops.
func TestCloseDoesNotWaitForLateArrivals(t *testing.T) {
	f := &fakeStore{release: script(backend.ErrLost)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		s.Abandon(backend.Request{Key: "k", Owner: "o"}, time.Hour)
		time.Sleep(lateArrival / 2) // sleeps: in fake time
		asked, start := f.releases.Load(), time.Now()
		s.Close()
		if got := time.Since(start); got != cleanupFirst || f.releases.Load() != asked+1 {
			t.Errorf("Close takes %v and %d requests", got, f.releases.Load()-asked)
		}
	})
}

func TestCloseLetsCleanUpsEnd(t *testing.T) {
	f := &fakeStore{release: script(errNet, nil, backend.ErrLost)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		s.Abandon(backend.Request{Key: "k", Owner: "o"}, time.Hour)
		start := time.Now()
		s.Close()
		if got := time.Since(start); got > 5*cleanupFirst || f.releases.Load() != 3 {
			t.Errorf("Close takes %v and %d attempts", got, f.releases.Load())
		}
	})
}
