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

func TestReleaseTwice(t *testing.T) {
	f := new(fakeStore)
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		wantErr(t, "first", l.Release(t.Context()), nil)
		wantErr(t, "second", l.Release(t.Context()), nil)
		if f.releases.Load() != 1 || s.Len() != 0 {
			t.Errorf("%d requests, %d live", f.releases.Load(), s.Len())
		}
		time.Sleep(2 * time.Minute)
		if isLost(l) {
			t.Error("Lost closes after a clean release")
		}
	})
}

func TestReleaseWithEndedContext(t *testing.T) {
	f := new(fakeStore)
	f.release = func(ctx context.Context) error { return ctx.Err() }
	bubble(t, f, func(t *testing.T, s *Leases) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, "release", grant(t, s, time.Minute).Release(ctx), nil)
	})
}

func TestReleaseOfALostLease(t *testing.T) {
	f := new(fakeStore)
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Second)
		<-l.Lost()
		wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
		wantErr(t, "again", l.Release(t.Context()), backend.ErrLost)
		if f.releases.Load() != 0 {
			t.Error("sent a request, although the store ends the lease itself")
		}
	})
}

// At its deadline a lease is lost, even if the timer has not fired yet.
func TestReleaseAtTheDeadline(t *testing.T) {
	for range 20 {
		bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
			l := grant(t, s, time.Second)
			time.Sleep(life(time.Second))
			wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
			if !isLost(l) {
				t.Error("Lost is open")
			}
		})
	}
}

func TestReleaseOfWhatTheStoreHasLost(t *testing.T) {
	bubble(t, &fakeStore{release: script(backend.ErrLost)}, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		called := 0
		l.OnLost(func() { called++ })
		wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
		if !isLost(l) || called != 1 {
			t.Errorf("lost %v, called %d times", isLost(l), called)
		}
		wantErr(t, "again", l.Release(t.Context()), backend.ErrLost)
	})
}

// If a release gets no reply, it returns after the timeout. It is repeated in the background until the TTL has run out.
func TestHungReleaseIsBoundedAndGoesOn(t *testing.T) {
	f := &fakeStore{release: hang}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		start := time.Now()
		err := l.Release(t.Context())
		if err == nil || Definite(err) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("release: %v, want an unknown outcome that is not reported as the end of the caller's context", err)
		}
		if got := time.Since(start); got != requestTimeout {
			t.Errorf("took %v, want %v", got, requestTimeout)
		}
		wantErr(t, "renew", l.Renew(t.Context(), time.Minute), backend.ErrLost)
		before := f.releases.Load()
		time.Sleep(10 * time.Second)
		if got := f.releases.Load() - before; got < 3 {
			t.Errorf("%d attempts in the background in 10 s", got)
		}
		time.Sleep(2 * time.Minute)
		before = f.releases.Load()
		time.Sleep(time.Hour)
		if got := f.releases.Load() - before; got != 0 {
			t.Errorf("%d attempts after the TTL", got)
		}
		if isLost(l) {
			t.Error("Lost closes, although the holder had given up its claim")
		}
	})
}

// If an attempt gets no reply and the next attempt finds nothing to release, the first attempt has released the lease.
func TestReleaseAgainAfterUnknown(t *testing.T) {
	bubble(t, &fakeStore{release: script(errNet, backend.ErrLost)}, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		wantErr(t, "first", l.Release(t.Context()), errNet)
		wantErr(t, "second", l.Release(t.Context()), nil)
		if isLost(l) {
			t.Error("Lost closes")
		}
		wantErr(t, "third", l.Release(t.Context()), nil)
	})
}

// If the next attempt finds nothing after the deadline, the result is ErrLost, because the lease may have ended before
// the first attempt arrived.
func TestReleaseAgainAfterTheDeadline(t *testing.T) {
	bubble(t, &fakeStore{release: script(errNet, backend.ErrLost)}, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Second)
		wantErr(t, "first", l.Release(t.Context()), errNet)
		time.Sleep(life(time.Second)) // sleeps: in fake time
		wantErr(t, "second", l.Release(t.Context()), backend.ErrLost)
		wantErr(t, "third", l.Release(t.Context()), backend.ErrLost)
	})
}

// If a release gets no reply, its clean-up lasts as long as the store may keep the lease. That includes the TTL of a
// longer renewal that got no reply either.
func TestCleanUpOutlivesAnUnknownRenewal(t *testing.T) {
	var up atomic.Bool
	answer := func(context.Context) error {
		if !up.Load() {
			return errNet
		}
		return nil
	}
	f := &fakeStore{renew: answer, release: answer}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, 10*time.Second)
		wantErr(t, "renew", l.Renew(t.Context(), 10*time.Minute), errNet)
		wantErr(t, "release", l.Release(t.Context()), errNet)
		time.Sleep(5 * time.Minute)
		up.Store(true)
		before := f.releases.Load()
		time.Sleep(2 * time.Second)
		if got := f.releases.Load() - before; got != 1 {
			t.Errorf("%d attempts when the store is back, want 1", got)
		}
	})
}

func TestConcurrentReleases(t *testing.T) {
	for _, test := range []struct {
		name     string
		errs     []error
		want     []error // in any order
		requests int64
	}{
		{"released", []error{nil}, []error{nil, nil, nil}, 1},
		{"lost", []error{backend.ErrLost}, []error{backend.ErrLost, backend.ErrLost, backend.ErrLost}, 1},
		{"unknown, then released", []error{errNet, nil}, []error{nil, nil, errNet}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			next := script(test.errs...)
			f := &fakeStore{release: func(ctx context.Context) error {
				time.Sleep(time.Second / 2) // sleeps: in fake time
				return next(ctx)
			}}
			bubble(t, f, func(t *testing.T, s *Leases) {
				l := grant(t, s, time.Minute)
				errs := make(chan error, len(test.want))
				for range test.want {
					go func() { errs <- l.Release(t.Context()) }()
				}
				got := map[error]int{}
				for range test.want {
					got[<-errs]++
				}
				want := map[error]int{}
				for _, err := range test.want {
					want[err]++
				}
				for err, n := range want {
					if got[err] != n {
						t.Errorf("got %v, want %v", got, want)
					}
				}
			})
		})
	}
}

// A release does not wait for a renewal that is under way, and the renewal's answer then has no effect.
func TestReleaseRacesRenewal(t *testing.T) {
	for _, answer := range []error{nil, backend.ErrLost, errNet} {
		t.Run("renewal answers "+errorText(answer), func(t *testing.T) {
			f := &fakeStore{renew: after(time.Second, answer)}
			bubble(t, f, func(t *testing.T, s *Leases) {
				l := grant(t, s, 10*time.Second)
				errs := make(chan error, 1)
				go func() { errs <- l.Renew(t.Context(), time.Minute) }()
				synctest.Wait()
				start := time.Now()
				wantErr(t, "release", l.Release(t.Context()), nil)
				if time.Since(start) != 0 {
					t.Error("the release waits for the renewal")
				}
				wantErr(t, "renew", <-errs, backend.ErrLost)
				time.Sleep(time.Hour)
				if isLost(l) || s.Len() != 0 || f.releases.Load() != 1 {
					t.Errorf("lost %v, %d live, %d releases", isLost(l), s.Len(), f.releases.Load())
				}
			})
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return "yes"
	}
	return err.Error()
}

// If an acquire request of a lost lease got no reply, Release sends a request, which frees the key if that request has
// granted it again.
func TestReleaseAfterLossWithUnknownAcquire(t *testing.T) {
	f := new(fakeStore)
	bubble(t, f, func(t *testing.T, s *Leases) {
		r := backend.Request{Key: "k", Owner: backend.NewOwner(), TTL: time.Second}
		l, err := s.Grant(t.Context(), r, Grant{Token: 1, Sent: time.Now(), TTL: r.TTL, Unsure: true})
		wantErr(t, "grant", err, nil)
		<-l.Lost()
		wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
		wantErr(t, "again", l.Release(t.Context()), backend.ErrLost)
		if n := f.releases.Load(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// If the last renewal of a lost lease got no reply, Release sends a request, which frees the key before that renewal's
// TTL runs out.
func TestReleaseAfterLossWithUnknownRenewal(t *testing.T) {
	t.Run("ended", func(t *testing.T) {
		f := &fakeStore{renew: script(errNet)}
		bubble(t, f, func(t *testing.T, s *Leases) {
			l := grant(t, s, time.Second)
			wantErr(t, "renew", l.Renew(t.Context(), time.Minute), errNet)
			<-l.Lost()
			wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
			wantErr(t, "again", l.Release(t.Context()), backend.ErrLost)
			if n := f.releases.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	})
	t.Run("under way", func(t *testing.T) {
		f := &fakeStore{renew: after(time.Minute, errNet)}
		bubble(t, f, func(t *testing.T, s *Leases) {
			l := grant(t, s, time.Second)
			go func() { _ = l.Renew(t.Context(), time.Minute) }()
			<-l.Lost()
			wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
			time.Sleep(2 * time.Minute)
			if n := f.releases.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	})
}

func TestReleaseErrorKeepsItsCause(t *testing.T) {
	bubble(t, &fakeStore{release: script(errNet)}, func(t *testing.T, s *Leases) {
		err := grant(t, s, time.Minute).Release(t.Context())
		if !errors.Is(err, errNet) || errors.Is(err, backend.ErrLost) {
			t.Errorf("%v", err)
		}
	})
}
