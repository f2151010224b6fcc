package gocronlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock"
	gocronlock "github.com/anylock/lock/adapters/gocron"
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
func TestElectorIsNotKeptOutByTheLost(t *testing.T) {
	store := &ghosts{Backend: memory.New(), lost: make(chan struct{})}
	locks, err := lock.New(store, lock.WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	e := gocronlock.NewElector(locks, "leader")
	leads := func() bool { return e.IsLeader(t.Context()) == nil }
	storetest.Until(t, storetest.Soon, "the elector to lead", leads)
	close(store.lost)
	storetest.Until(t, storetest.Soon, "the elector to ask again", func() bool { return store.asked.Load() > 1 })
	storetest.Until(t, storetest.Soon, "the elector to lead again", leads)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
