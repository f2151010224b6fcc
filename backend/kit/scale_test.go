package kit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

// A hundred thousand leases need no goroutine of their own. Those with a short TTL are lost at their deadlines, and the
// others when Leases is closed.
func TestManyLeasesCostNoGoroutines(t *testing.T) {
	const count = 100_000
	before := runtime.NumGoroutine()
	s := NewLeases(new(fakeStore), time.Second)
	var lost atomic.Int64
	for i := range count {
		ttl := time.Hour
		if i%10 == 0 {
			ttl = time.Second
		}
		now := time.Now() // also the time of the reply, so that a stalled machine loses no grant
		l, err := s.Grant(t.Context(), backend.Request{Key: fmt.Sprint(i), Owner: "o"}, Grant{Sent: now, Got: now, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		l.OnLost(func() { lost.Add(1) })
	}
	// The first leases may have expired already, and the timer's goroutine may still report their loss.
	after := runtime.NumGoroutine()
	for end := time.Now().Add(10 * time.Second); after > before && time.Now().Before(end); time.Sleep(time.Millisecond) {
		after = runtime.NumGoroutine()
	}
	if after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	for deadline := time.Now().Add(30 * time.Second); lost.Load() < count/10; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d lost", lost.Load(), count/10)
		}
	}
	if got := s.Len(); got != count-count/10 {
		t.Errorf("%d live", got)
	}
	s.Close()
	if got := lost.Load(); got != count {
		t.Errorf("%d lost after Close", got)
	}
}

// All methods run at once, in real time, for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	f := &fakeStore{
		renew: func(ctx context.Context) error {
			switch rand.IntN(8) {
			case 0:
				return errNet
			case 1:
				return backend.ErrLost
			case 2:
				return hang(ctx)
			}
			return nil
		},
		release: func(ctx context.Context) error {
			switch rand.IntN(8) {
			case 0:
				return errNet
			case 1:
				return backend.ErrLost
			}
			return nil
		},
	}
	s := NewLeases(f, 50*time.Millisecond)
	end := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for time.Now().Before(end) {
				abuse(t, s)
			}
		})
	}
	all.Go(func() {
		for ; time.Now().Before(end); time.Sleep(time.Millisecond) {
			_, _ = s.Len(), s.Closed()
			s.Abandon(backend.Request{Key: "k", Owner: "o"}, time.Second)
		}
	})
	all.Go(func() {
		time.Sleep(800 * time.Millisecond) // sleeps: Close must meet the other calls at work
		s.Close()
	})
	all.Wait()
	s.Close()
	if s.Len() != 0 {
		t.Errorf("%d live", s.Len())
	}
}

// abuse uses one lease from many goroutines.
func abuse(t *testing.T, s *Leases) {
	ttl := time.Duration(3+rand.IntN(30)) * time.Millisecond
	l, err := s.Grant(t.Context(), backend.Request{Key: "k", Owner: backend.NewOwner()}, Grant{Sent: time.Now(), TTL: ttl})
	if err != nil {
		if !errors.Is(err, backend.ErrClosed) && !errors.Is(err, backend.ErrLost) {
			t.Error(err)
		}
		return
	}
	var calls atomic.Int64
	l.OnLost(func() { calls.Add(1) })
	var uses sync.WaitGroup
	for _, use := range []func(){
		func() { _ = l.Renew(t.Context(), ttl) },
		func() { _ = s.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: ttl}}, answers(0, nil)) },
		func() { _ = l.Deadline() },
		func() { l.OnLost(func() {}) },
		func() { l.Lose() },
		func() { _ = l.Release(t.Context()) },
		func() { _ = l.Release(t.Context()) },
	} {
		uses.Go(func() {
			if pause := time.Duration(rand.IntN(int(ttl))); rand.IntN(2) == 0 {
				time.Sleep(pause) // sleeps: a random moment of the lease's life
			}
			use()
		})
	}
	uses.Wait()
	err = errNet
	for errors.Is(err, errNet) {
		err = l.Release(t.Context())
	}
	if isLost(l) == (err == nil) {
		t.Errorf("release: %v; lost %v", err, isLost(l))
	}
	for deadline := time.Now().Add(10 * time.Second); isLost(l) != (calls.Load() == 1) && time.Now().Before(deadline); {
		runtime.Gosched() // Lost closes an instant before the callback runs
	}
	if isLost(l) != (calls.Load() == 1) {
		t.Errorf("lost %v, called %d times", isLost(l), calls.Load())
	}
}

// Many leases are renewed in batches, again and again, and none is lost. Without renewals, all of them expire.
func TestManyLeasesRenewed(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		const count, ttl = 2000, 10 * time.Second
		var batch []backend.Renewal
		for i := range count {
			batch = append(batch, backend.Renewal{Lease: grant(t, s, ttl+time.Duration(i)*time.Millisecond), TTL: ttl})
		}
		for range 20 {
			time.Sleep(ttl / 3)
			for i, err := range s.RenewBatch(t.Context(), batch, answers(time.Second, make([]error, count)...)) {
				if err != nil {
					t.Fatalf("lease %d: %v", i, err)
				}
			}
		}
		if s.Len() != count {
			t.Errorf("%d of %d live", s.Len(), count)
		}
		time.Sleep(ttl)
		synctest.Wait()
		if s.Len() != 0 {
			t.Errorf("%d live after the TTL", s.Len())
		}
	})
}

func BenchmarkRenew(b *testing.B) {
	for _, held := range []int{1, 100_000} {
		b.Run(fmt.Sprint("held=", held), func(b *testing.B) {
			s := NewLeases(new(fakeStore), time.Second)
			defer s.Close()
			var l *Life
			for range held {
				l, _ = s.Grant(b.Context(), backend.Request{Key: "k", Owner: "o"}, Grant{Sent: time.Now(), TTL: time.Hour})
			}
			for b.Loop() {
				if err := l.Renew(b.Context(), time.Hour); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
