package kit

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

func TestOnLost(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Second)
		var calls []string
		call := func(name string) func() { return func() { calls = append(calls, name) } }
		l.OnLost(call("a"))
		l.OnLost(call("b"))
		<-l.Lost()
		synctest.Wait()
		l.OnLost(call("late"))
		if !slices.Equal(calls, []string{"a", "b", "late"}) {
			t.Errorf("called %v", calls)
		}
	})
}

// A callback may call methods of its lease and of Leases.
func TestOnLostRunsUnlocked(t *testing.T) {
	for name, end := range map[string]func(context.Context, *Leases, *Life){
		"deadline": func(context.Context, *Leases, *Life) { time.Sleep(time.Minute) }, // sleeps: in fake time
		"store":    func(_ context.Context, _ *Leases, l *Life) { l.Lose() },
		"close":    func(_ context.Context, s *Leases, _ *Life) { s.Close() },
		"renewal":  func(ctx context.Context, _ *Leases, l *Life) { _ = l.Renew(ctx, time.Minute) },
		"release":  func(ctx context.Context, _ *Leases, l *Life) { _ = l.Release(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeStore{renew: script(backend.ErrLost), release: script(backend.ErrLost)}
			bubble(t, f, func(t *testing.T, s *Leases) {
				l := grant(t, s, time.Minute)
				done := make(chan bool, 1)
				l.OnLost(func() {
					_, _, _ = s.Len(), l.Deadline(), s.Closed()
					l.OnLost(func() { done <- isLost(l) })
				})
				end(t.Context(), s, l)
				if !<-done {
					t.Error("called before Lost closes")
				}
			})
		})
	}
}

func TestOnLostIsNotCalledAfterRelease(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Second)
		called := false
		l.OnLost(func() { called = true })
		wantErr(t, "release", l.Release(t.Context()), nil)
		l.OnLost(func() { called = true })
		time.Sleep(time.Minute)
		s.Close()
		if called {
			t.Error("called")
		}
	})
}

func TestLose(t *testing.T) {
	f := &fakeStore{}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		called := 0
		l.OnLost(func() { called++ })
		l.Lose()
		l.Lose()
		if !isLost(l) || called != 1 || s.Len() != 0 {
			t.Errorf("lost %v, called %d times, %d live", isLost(l), called, s.Len())
		}
		wantErr(t, "renew", l.Renew(t.Context(), time.Minute), backend.ErrLost)
		wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
	})
}

// A loss that the store reports during a release, such as the end of a session, does not count.
func TestLoseDuringRelease(t *testing.T) {
	f := &fakeStore{release: after(time.Second/2, nil)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		errs := make(chan error)
		go func() { errs <- l.Release(t.Context()) }()
		synctest.Wait()
		l.Lose()
		wantErr(t, "release", <-errs, nil)
		l.Lose()
		if isLost(l) {
			t.Error("Lost closes")
		}
	})
}

func TestLoseDuringRenewal(t *testing.T) {
	f := &fakeStore{renew: after(time.Second, nil)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		errs := make(chan error)
		go func() { errs <- l.Renew(t.Context(), time.Minute) }()
		synctest.Wait()
		l.Lose()
		wantErr(t, "renew", <-errs, backend.ErrLost)
		wantErr(t, "release", l.Release(t.Context()), backend.ErrLost)
		if s.Len() != 0 || f.releases.Load() != 1 {
			t.Errorf("%d live, %d releases of what the renewal may have made", s.Len(), f.releases.Load())
		}
	})
}

// Lost may be called for the first time after the end of the lease, and always returns the same channel.
func TestLostAskedForLate(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		gone, released, closed := grant(t, s, time.Second), grant(t, s, time.Second), grant(t, s, time.Hour)
		wantErr(t, "release", released.Release(t.Context()), nil)
		time.Sleep(time.Minute)
		s.Close()
		synctest.Wait()
		for _, c := range []struct {
			l    *Life
			lost bool
		}{{gone, true}, {released, false}, {closed, true}} {
			if again := c.l.Lost(); isLost(c.l) != c.lost || c.l.Lost() != again {
				t.Errorf("lost: %v, want %v, always by the same channel", !c.lost, c.lost)
			}
		}
	})
}
