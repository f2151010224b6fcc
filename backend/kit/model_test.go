package kit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

// A lossyStore is a small store behind a network that delays, loses and repeats requests, and loses replies. Random
// histories of a Life are checked against it.
type lossyStore struct {
	mu      sync.Mutex
	rng     *rand.Rand
	calm    bool // the network only delays
	held    map[string]record
	pending sync.WaitGroup // requests that arrive after their sender has timed out
}

type record struct {
	owner   string
	expires time.Time
}

func (s *lossyStore) Guarantees() backend.Guarantees { return backend.Guarantees{} }

func (s *lossyStore) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// acquire grants a free key. It bypasses the network, so it never fails on the way.
func (s *lossyStore) acquire(key, owner string, ttl time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.held[key]; ok && time.Now().Before(r.expires) {
		return r.owner == owner
	}
	s.held[key] = record{owner, time.Now().Add(ttl)}
	return true
}

func (s *lossyStore) holder(key string) (owner string, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.held[key]
	if left = time.Until(r.expires); !ok || left <= 0 {
		return "", 0
	}
	return r.owner, left
}

func (s *lossyStore) renew(key, owner string, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.held[key]
	if !ok || r.owner != owner || !time.Now().Before(r.expires) {
		return backend.ErrLost
	}
	s.held[key] = record{owner, time.Now().Add(ttl)}
	return nil
}

func (s *lossyStore) remove(key, owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.held[key]
	if !ok || r.owner != owner {
		return backend.ErrLost
	}
	live := time.Now().Before(r.expires)
	delete(s.held, key)
	if !live {
		return backend.ErrLost
	}
	return nil
}

// travel sends one request over the network. apply carries the request out at the store.
func (s *lossyStore) travel(ctx context.Context, apply func() error) error {
	fate := s.below(10)
	delay := time.Duration(s.below(50)) * time.Millisecond
	s.mu.Lock()
	if s.calm {
		fate = 9
	}
	s.mu.Unlock()
	switch fate {
	case 0: // fails without reaching the store
		return errNet
	case 1: // lost on the way
		return hang(ctx)
	case 2: // the reply is lost
		_ = apply()
		return hang(ctx)
	case 3: // arrives after its sender has timed out
		err := hang(ctx)
		s.pending.Go(func() {
			time.Sleep(min(delay, lateArrival/2)) // sleeps: in fake time
			_ = apply()
		})
		return err
	case 4: // arrives twice
		_ = apply()
	}
	time.Sleep(delay) // sleeps: in fake time
	err := apply()
	time.Sleep(delay) // sleeps: in fake time
	return err
}

func (s *lossyStore) RenewLease(ctx context.Context, l *Life, ttl time.Duration) (time.Duration, error) {
	return ttl, s.travel(ctx, func() error { return s.renew(l.Key(), l.Owner(), ttl) })
}

func (s *lossyStore) ReleaseLease(ctx context.Context, l *Life) error {
	return s.travel(ctx, func() error { return s.remove(l.Key(), l.Owner()) })
}

// A holder calls random methods of one lease after the other, and checks what holders may rely on.
type holder struct {
	t      *testing.T
	store  *lossyStore
	leases *Leases
	key    string
	steps  []string // of the current lease, for people
}

func (h *holder) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Errorf("%s\nsteps: %v", fmt.Sprintf(format, args...), h.steps)
}

// check checks what holds at any time. While the lease lives, the store keeps it at least until its deadline. Once the
// lease is lost, it stays lost.
func (h *holder) check(l *Life, wasLost bool) (isOver bool) {
	h.t.Helper()
	now := time.Now()
	over := isLost(l)
	if wasLost && !over {
		h.fail("Lost has opened again")
	}
	if !over && now.Before(l.Deadline()) {
		if owner, left := h.store.holder(h.key); owner != l.Owner() || now.Add(left).Before(l.Deadline()) {
			h.fail("the lease lives for %v, the store says %q for %v", time.Until(l.Deadline()), owner, left)
		}
	}
	// The bubble's clock moves only after everything that was due has run.
	if !over && now.After(l.Deadline()) {
		h.fail("it is %v after the deadline and Lost is open", time.Since(l.Deadline()))
	}
	return over
}

func (h *holder) hold() {
	ttl := time.Duration(50+h.store.below(3000)) * time.Millisecond
	r := backend.Request{Key: h.key, Owner: backend.NewOwner(), TTL: ttl}
	h.steps = []string{"acquire " + ttl.String()}
	sent := time.Now()
	if !h.store.acquire(r.Key, r.Owner, ttl) {
		time.Sleep(10 * time.Millisecond) // sleeps: in fake time
		return
	}
	l, err := h.leases.Grant(h.t.Context(), r, Grant{Sent: sent, TTL: ttl})
	if err != nil {
		h.fail("grant: %v", err)
		return
	}
	called := make(chan struct{})
	l.OnLost(func() { close(called) })
	over := false
	for range 1 + h.store.below(12) {
		over = h.step(l, over)
	}
	h.release(l, over)
	if isLost(l) {
		<-called // OnLost runs if, and only if, Lost closes
		return
	}
	select {
	case <-called:
		h.fail("OnLost called back without a loss")
	default:
	}
}

func (h *holder) step(l *Life, over bool) (nowOver bool) {
	switch h.store.below(4) {
	case 0:
		d := time.Duration(h.store.below(1500)) * time.Millisecond
		h.steps = append(h.steps, "sleep "+d.String())
		time.Sleep(d) // sleeps: in fake time
	case 1, 2, 3:
		ttl := time.Duration(5+h.store.below(3000)) * time.Millisecond
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Duration(1+h.store.below(400))*time.Millisecond)
		before := l.Deadline()
		err := l.Renew(ctx, ttl)
		cancel()
		h.steps = append(h.steps, fmt.Sprintf("renew %v: %v", ttl, err))
		switch {
		case over && !errors.Is(err, backend.ErrLost):
			h.fail("renew of a lost lease: %v", err)
		case err != nil && l.Deadline().After(before):
			h.fail("a renewal that fails has moved the deadline by %v", l.Deadline().Sub(before))
		case errors.Is(err, backend.ErrLost) && !isLost(l):
			h.fail("renew: %v, and Lost is open", err)
		}
	}
	return h.check(l, over)
}

// release releases the lease, and checks that the error agrees with Lost.
func (h *holder) release(l *Life, over bool) {
	err := l.Release(h.t.Context())
	h.steps = append(h.steps, fmt.Sprintf("release: %v", err))
	switch {
	case over && !errors.Is(err, backend.ErrLost):
		h.fail("release of a lost lease: %v", err)
	case err == nil && isLost(l):
		h.fail("Lost is closed after a clean release")
	case errors.Is(err, backend.ErrLost) && !isLost(l):
		h.fail("release: %v, and Lost is open", err)
	}
	if err := l.Renew(h.t.Context(), time.Second); !errors.Is(err, backend.ErrLost) {
		h.fail("renew after release: %v", err)
	}
}

// Holders of a few keys call random methods, over a network that loses requests and replies.
func TestRandomHistories(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprintf("%d-seed-%d", round, seed), func(t *testing.T) { synctest.Test(t, randomHistory(seed)) }) {
			return
		}
	}
}

func randomHistory(seed uint64) func(t *testing.T) {
	return func(t *testing.T) {
		store := &lossyStore{rng: rand.New(rand.NewPCG(seed, 1)), held: map[string]record{}}
		leases := NewLeases(store, 300*time.Millisecond)
		const keys, holders, each = 3, 6, 8
		var all sync.WaitGroup
		for i := range holders {
			h := &holder{t: t, store: store, leases: leases, key: fmt.Sprint("key ", i%keys)}
			all.Go(func() {
				for range each {
					h.hold()
				}
			})
		}
		all.Wait()
		// Whatever the network has lost, the keys become free once the network works again: released keys within a few
		// attempts, the others when their TTL runs out.
		store.mu.Lock()
		store.calm = true
		store.mu.Unlock()
		time.Sleep(5 * time.Second) // sleeps: in fake time
		for i := range keys {
			if owner, left := store.holder(fmt.Sprint("key ", i)); owner != "" {
				t.Errorf("key %d stays with %s for %v", i, owner, left)
			}
		}
		if leases.Len() != 0 {
			t.Errorf("%d leases live", leases.Len())
		}
		leases.Close()
		store.pending.Wait()
	}
}
