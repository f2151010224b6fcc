package file

import (
	"context"
	"slices"
	"sync"

	"github.com/anylock/lock/backend/kit"
)

// A turn lets one goroutine of this process at a time lock a bucket's file. The others wait for it in order of arrival,
// instead of trying again and again: a file lock wakes nobody. The zero turn is free.
type turn struct {
	mu    sync.Mutex
	taken bool
	queue []chan struct{} // closed when it is the waiter's turn
}

// acquire waits until ctx ends. Its error is that of ctx.
func (t *turn) acquire(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.queue = append(t.queue, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.queue, mine)
	if i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 {
		t.release() // the turn came meanwhile
	}
	return kit.ContextError(ctx, nil)
}

func (t *turn) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.taken, t.queue = false, nil
		return
	}
	close(t.queue[0])
	t.queue = t.queue[1:]
}
