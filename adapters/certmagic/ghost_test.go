package certmagiclock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/anylock/lock"
	certmagiclock "github.com/anylock/lock/adapters/certmagic"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
)

// In ghosts the first lease is lost to its holder when the test says so, and stays in the store until its release or its TTL, as after
// renewals whose answers were lost.
type ghosts struct {
	backend.Backend
	lost  chan struct{}
	asked atomic.Int64
}

type ghost struct {
	backend.Lease // it has no OnLost
	lost          chan struct{}
}

func (g ghost) Lost() <-chan struct{} { return g.lost }

func (g *ghosts) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := g.Backend.Acquire(ctx, r)
	if g.asked.Add(1) == 1 && err == nil {
		l = ghost{l, g.lost}
	}
	return l, err
}

// The store may have a lost lease still. It does not keep its holder out.
func TestRenewalIsNotKeptOutByTheLost(t *testing.T) {
	store := &ghosts{Backend: memory.New(), lost: make(chan struct{})}
	locks, err := lock.New(store, lock.WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	s := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, locks)
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	close(store.lost)
	storetest.Until(t, storetest.Soon, "the loss to be noticed", func() bool {
		_, err := locks.TryAcquire(t.Context(), name)
		return errors.Is(err, lock.ErrHeld) && store.asked.Load() > 1 // before, it does not get as far as the store
	})
	if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
		t.Error(err)
	}
	if err := s.Unlock(t.Context(), name); err != nil {
		t.Error(err)
	}
}
