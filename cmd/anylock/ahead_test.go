//go:build unix

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

// A deafStore grants every request. takes is the duration of a renewal. Renewal number deaf gets no reply.
type deafStore struct {
	backend.Backend
	leases *kit.Leases
	takes  time.Duration
	deaf   int32
	asked  atomic.Int32 // renewals so far
	ttl    atomic.Int64 // of the last renewal
}

func newDeafStore(takes time.Duration, deaf int32) *deafStore {
	s := &deafStore{Backend: memory.New(), takes: takes, deaf: deaf}
	s.leases = kit.NewLeases(s, time.Second)
	return s
}

func (s *deafStore) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return s.leases.Grant(ctx, r, kit.Grant{Token: 1, Sent: time.Now(), TTL: r.TTL})
}

func (s *deafStore) RenewLease(ctx context.Context, _ *kit.Life, ttl time.Duration) (time.Duration, error) {
	s.ttl.Store(int64(ttl))
	if s.asked.Add(1) == s.deaf {
		<-ctx.Done()
		return ttl, kit.ContextError(ctx, nil)
	}
	return ttl, kit.Sleep(ctx, s.takes)
}

func (s *deafStore) ReleaseLease(context.Context, *kit.Life) error { return nil }

func (s *deafStore) Close() error {
	s.leases.Close()
	return s.Backend.Close()
}

// A single renewal without a reply does not stop the command, whatever the TTL and the grace.
func TestRenewalWithoutAnswer(t *testing.T) {
	for _, test := range []struct{ ttl, grace time.Duration }{
		{time.Second, time.Second / graceShare},
		{10 * time.Second, time.Second},
		{10 * time.Second, 10 * time.Second / graceShare},
		{10 * time.Second, 6 * time.Second},
		{20 * time.Second, 20 * time.Second / graceShare},
		{30 * time.Second, defaultMaxGrace},
		{30 * time.Second, maxGrace(30 * time.Second)},
		{time.Minute, 40 * time.Second},
	} {
		for deaf := int32(1); deaf <= 4; deaf++ {
			t.Run(fmt.Sprintf("%v of %v, renewal %d", test.grace, test.ttl, deaf), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runOnDeafStore(t, test.ttl, test.grace, deaf) })
			})
		}
	}
}

func runOnDeafStore(t *testing.T, ttl, grace time.Duration, deaf int32) {
	store := newDeafStore(min(ttl/100, maxUnrenewed(ttl, grace)/20), deaf)
	locks, err := lock.New(store, lock.WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	l, err := locks.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	child := newFakeChild()
	defer time.AfterFunc(3*ttl, func() { child.exit(0) }).Stop()
	stop := renewEarly(l, ttl, ttl, grace)
	s := &supervisor{
		lease: l, child: child, ttl: ttl, grace: grace, guarded: t.Context(), lastError: func() string { return "" },
		say: t.Logf,
	}
	got := s.run()
	stop()
	if got != (outcome{}) {
		t.Errorf("outcome %+v after %v, want the command's own end", got, time.Since(child.start))
	}
	if asked := store.asked.Load(); asked <= deaf {
		t.Errorf("%d renewals: this proves nothing", asked)
	}
}

// A limit on how long the store lets a client be silent leaves the TTL of the lease as it was requested.
func TestLimitLeavesTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, silence = 5 * time.Minute, 33 * time.Second
		r := &runner{ttl: seconds{d: ttl, isSet: true}, grace: seconds{d: 20 * time.Second, isSet: true}}
		if err := r.limitTTL(lock.Guarantees{MaxSilence: silence}); err != nil {
			t.Fatal(err)
		}
		store := newDeafStore(time.Millisecond, 0)
		locks, err := lock.New(store, lock.WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		l, err := locks.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		stop := renewEarly(l, r.requested, r.ttl.d, r.grace.d)
		time.Sleep(silence) // sleeps: the time for a renewal; in fake time
		stop()
		if got := time.Duration(store.ttl.Load()); got != ttl {
			t.Errorf("%d renewals, the last to %v, want %v", store.asked.Load(), got, ttl)
		}
	})
}
