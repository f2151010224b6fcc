package adaptertest

import (
	"context"
	"sync/atomic"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// Ghosts is a store in memory whose first lease is lost to its holder when Lost is closed, and stays in the store until
// its release or its TTL, as after renewals whose answers were lost.
type Ghosts struct {
	backend.Backend
	Lost  chan struct{}
	Asked atomic.Int64 // counts attempts
}

// NewGhosts returns a new store.
func NewGhosts() *Ghosts { return &Ghosts{Backend: memory.New(), Lost: make(chan struct{})} }

// Acquire implements [backend.Backend].
func (g *Ghosts) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := g.Backend.Acquire(ctx, r)
	if g.Asked.Add(1) == 1 && err == nil {
		l = ghost{l, g.Lost}
	}
	return l, err
}

type ghost struct {
	backend.Lease // it has no OnLost
	lost          chan struct{}
}

func (g ghost) Lost() <-chan struct{} { return g.lost }
