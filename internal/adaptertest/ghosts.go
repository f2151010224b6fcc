package adaptertest

import (
	"context"
	"sync/atomic"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// Ghosts is an in-memory store. Closing Lost makes the holder lose the lease of the first attempt, but the store keeps
// the lease until its release or expiry. The same happens if the replies to renewals are lost.
type Ghosts struct {
	backend.Backend
	Lost  chan struct{}
	Asked atomic.Int64 // number of attempts
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
	backend.Lease // without OnLost
	lost          chan struct{}
}

func (g ghost) Lost() <-chan struct{} { return g.lost }
