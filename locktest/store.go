// Package locktest helps to test code that uses package lock. A [Store] keeps locks in the test's memory. The test
// causes the failures: a busy key, a lost lease, a store that is slow or does not respond.
//
// A Store works in a testing/synctest bubble, where TTLs and waits take no real time: call [New] inside the bubble.
package locktest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

// A Store is a store in memory whose faults a test controls. Its methods are safe for concurrent use.
type Store struct {
	t      testing.TB
	memory *memory.Store
	other  *lock.Locker // of a process that no fault affects, for Inspect and Break

	mu    sync.Mutex
	away  bool
	delay time.Duration
	lives map[string]*kit.Life // by owner
}

// New returns a Store without faults. When the test ends, its Lockers are closed, and their leases end.
func New(t testing.TB) *Store {
	t.Helper()
	s := &Store{t: t, memory: memory.NewStore(), lives: make(map[string]*kit.Life)}
	s.other = s.open(s.memory.Client())
	return s
}

// Locker returns a Locker on the store, as for a process of its own. The Lockers of one Store exclude each other.
func (s *Store) Locker(opts ...lock.Option) *lock.Locker {
	s.t.Helper()
	return s.open(newClient(s), opts...)
}

func (s *Store) open(b backend.Backend, opts ...lock.Option) *lock.Locker {
	s.t.Helper()
	l, err := lock.New(b, opts...)
	if err != nil {
		s.t.Fatalf("locktest: %v", err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	return l
}

// Hold makes key busy: a new process acquires it at once, and keeps it until release is called or the test ends. It
// fails the test if key is held already. key includes the prefix of Lockers that have one, as in Lose. With lock.Shared
// the new process is a reader.
func (s *Store) Hold(key string, opts ...lock.AcquireOption) (release func()) {
	s.t.Helper()
	lease, err := s.open(s.memory.Client()).TryAcquire(context.Background(), key, opts...)
	if err != nil {
		s.t.Fatalf("locktest: Hold: %v", err)
	}
	return func() { _ = lease.Release(context.Background()) }
}

// Lose ends the lease on key, or all of them if they are shared, as a store that loses data does. Its holder is
// notified at once, and the next waiter gets the key. It fails the test if key is free.
func (s *Store) Lose(key string) {
	s.t.Helper()
	ctx := context.Background()
	h, err := s.other.Ops().Inspect(ctx, key)
	if err == nil && !h.Held() {
		err = fmt.Errorf("%q is free", key)
	}
	shared := h.Shared > 0 // waiters get the key once all readers have lost it
	for again := true; again && err == nil; again = shared && h.Shared > 0 {
		if err = s.other.Ops().Break(ctx, key, h.Owner); err == nil {
			s.notify(h.Owner)
			h, err = s.other.Ops().Inspect(ctx, key)
		}
	}
	if err != nil {
		s.t.Fatalf("locktest: Lose: %v", err)
	}
}

// notify reports the loss of owner's lease to its holder.
func (s *Store) notify(owner string) {
	s.mu.Lock()
	life := s.lives[owner]
	s.mu.Unlock()
	if life != nil {
		life.Lose()
	}
}

// SetAway makes the store unreachable, or reachable again. While the store is away, each request of a Locker fails with
// lock.ErrUnavailable. Leases are not renewed, and are lost at their deadline. A released key stays taken for its TTL.
// A waiter that already queues keeps its place.
func (s *Store) SetAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// SetDelay makes each request of a Locker take d before it reaches the store. 0 means no delay, as at first.
func (s *Store) SetDelay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// request waits for the delay, and fails if the store is away.
func (s *Store) request(ctx context.Context) error {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	if delay > 0 {
		if err := kit.Sleep(ctx, delay); err != nil {
			return kit.ContextError(ctx, nil)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return fmt.Errorf("%w: locktest: the store is away", backend.ErrUnavailable)
	}
	return nil
}
