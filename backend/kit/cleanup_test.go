package kit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

// attempts runs Abandon on a store with these answers. It returns when each attempt was made, counted from the start.
func attempts(t *testing.T, ttl time.Duration, answers ...error) (times []time.Duration) {
	next := script(answers...)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		s := NewLeases(&fakeStore{release: func(ctx context.Context) error {
			mu.Lock()
			times = append(times, time.Since(start))
			mu.Unlock()
			return next(ctx)
		}}, requestTimeout)
		s.Abandon(backend.Request{Key: "k", Owner: "o"}, ttl)
		time.Sleep(24 * time.Hour)
		s.Close()
	})
	return times
}

// After a removal, Abandon checks the owner again, because another request of the owner may still arrive.
func TestAbandonLooksAgainAfterRemoval(t *testing.T) {
	for _, answers := range [][]error{{nil, backend.ErrLost}, {errNet, nil, backend.ErrLost},
		{backend.ErrLost, backend.ErrLost, nil, backend.ErrLost}} {
		got := attempts(t, time.Hour, answers...)
		removed := slices.Index(answers, nil)
		if d := got[len(got)-1] - got[removed]; d < lateArrival || d > 2*lateArrival {
			t.Errorf("%v: attempts at %v: the last is %v after the removal", answers, got, d)
		}
	}
}

func TestAbandonRetriesUnknown(t *testing.T) {
	got := attempts(t, time.Hour, errNet, errNet, errNet, nil)
	want := []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond, 140 * time.Millisecond}
	if !slices.Equal(got[:min(4, len(got))], want) {
		t.Errorf("attempts at %v, want %v first", got, want)
	}
}

// If all requests for a grant were answered, the first answer to its clean-up is final. If one of them may still
// arrive, the clean-up makes another request, even after a release.
func TestUnsureGrantIsCleanedUpAgain(t *testing.T) {
	for _, unsure := range []bool{false, true} {
		for name, end := range map[string]func(t *testing.T, s *Leases, g Grant){
			"released": func(t *testing.T, s *Leases, g Grant) {
				l, err := s.Grant(t.Context(), backend.Request{Key: "k", Owner: "o"}, g)
				if err == nil {
					err = l.Release(t.Context())
				}
				wantErr(t, "release", err, nil)
			},
			"too late": func(t *testing.T, s *Leases, g Grant) {
				g.Sent = g.Sent.Add(-2 * g.TTL)
				_, err := s.Grant(t.Context(), backend.Request{Key: "k", Owner: "o"}, g)
				wantErr(t, "grant", err, backend.ErrLost)
			},
		} {
			f := &fakeStore{release: script(nil, backend.ErrLost)}
			bubble(t, f, func(t *testing.T, s *Leases) {
				end(t, s, Grant{Sent: time.Now(), TTL: time.Minute, Unsure: unsure})
				time.Sleep(3 * lateArrival) // sleeps: in fake time
				if again := f.releases.Load() > 1; again != unsure {
					t.Errorf("%s, unsure is %v: %d requests", name, unsure, f.releases.Load())
				}
			})
		}
	}
}

// Abandon stops when the store has had nothing of the owner for a second, because the abandoned request may still
// arrive.
func TestAbandonBelievesAbsenceLate(t *testing.T) {
	for _, answers := range [][]error{{backend.ErrLost}, {errNet, backend.ErrLost},
		{backend.ErrLost, errNet, backend.ErrLost}, {backend.ErrLost, backend.ErrLost, errNet, backend.ErrLost}} {
		got := attempts(t, time.Hour, answers...)
		first := slices.Index(answers, backend.ErrLost)
		last := got[len(got)-1]
		if d := last - got[first]; d < lateArrival || d > 2*lateArrival {
			t.Errorf("%v: attempts at %v: the last is %v after the first absence", answers, got, d)
		}
	}
}

// If the abandoned request arrives after the store has first reported the owner absent, Abandon removes the lease.
func TestAbandonRemovesAStraggler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var removed atomic.Bool
		s := NewLeases(&fakeStore{release: func(context.Context) error {
			if time.Since(start) < 900*time.Millisecond {
				return backend.ErrLost
			}
			removed.Store(true)
			return nil
		}}, requestTimeout)
		s.Abandon(backend.Request{Key: "k", Owner: "o"}, time.Hour)
		time.Sleep(time.Minute)
		if !removed.Load() {
			t.Error("it stays")
		}
		s.Close()
	})
}

// If the store does not answer, Abandon makes an attempt once a second until the TTL has run out.
func TestAbandonEndsWithTheTTL(t *testing.T) {
	got := attempts(t, time.Minute, errNet)
	if n := len(got); n < 60 || n > 70 {
		t.Errorf("%d attempts in a minute", n)
	}
	if last := got[len(got)-1]; last > time.Minute {
		t.Errorf("the last attempt after %v", last)
	}
	for i := 10; i < len(got); i++ {
		if d := got[i] - got[i-1]; d != cleanupMost {
			t.Errorf("pause of %v", d)
		}
	}
}

// Even with a short TTL, the first attempt may take the whole request timeout.
func TestAbandonOfATinyTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := make(chan time.Duration, 10)
		s := NewLeases(&fakeStore{release: func(ctx context.Context) error {
			d, _ := ctx.Deadline()
			limits <- time.Until(d)
			return nil
		}}, requestTimeout)
		s.Abandon(backend.Request{Key: "k", Owner: "o"}, time.Millisecond)
		synctest.Wait()
		if got := <-limits; got != requestTimeout {
			t.Errorf("the first attempt may take %v", got)
		}
		s.Close()
	})
}

// A clean-up's requests have the key and the owner of the abandoned request, and a timeout each.
func TestAbandonAsksForItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		seen := make(chan *Life, 20)
		s := NewLeases(requestFunc(func(ctx context.Context, l *Life) error {
			if d, _ := ctx.Deadline(); time.Until(d) != requestTimeout {
				t.Errorf("an attempt may take %v", time.Until(d))
			}
			seen <- l
			return nil
		}), requestTimeout)
		s.Abandon(backend.Request{Key: "a key", Owner: "an owner"}, time.Hour)
		l := <-seen
		if l.Key() != "a key" || l.Owner() != "an owner" || l.Data != nil || time.Since(start) != 0 {
			t.Errorf("%q %q %v after %v", l.Key(), l.Owner(), l.Data, time.Since(start))
		}
		l.Lose() // has no effect
		s.Close()
	})
}

// A requestFunc answers releases; its renewals fail.
type requestFunc func(ctx context.Context, l *Life) error

func (f requestFunc) Guarantees() backend.Guarantees { return backend.Guarantees{} }

func (f requestFunc) RenewLease(context.Context, *Life, time.Duration) (time.Duration, error) {
	return 0, errNet
}
func (f requestFunc) ReleaseLease(ctx context.Context, l *Life) error { return f(ctx, l) }
