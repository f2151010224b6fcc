package etcd

import (
	"context"
	"sync"

	"github.com/anylock/lock/backend/kit"
)

// A backlog processes items in the background on one goroutine. Each call of process gets all items that were added
// since the previous call.
type backlog[T any] struct {
	leases  *kit.Leases // its Close waits for the goroutine
	process func(list []T)

	mu      sync.Mutex
	list    []T
	running bool
}

func (b *backlog[T]) add(items ...T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, items...)
	if !b.running {
		b.running = b.leases.Go(b.processAll)
	}
}

func (b *backlog[T]) processAll(context.Context) {
	for {
		b.mu.Lock()
		list := b.list
		b.list, b.running = nil, len(list) > 0
		b.mu.Unlock()
		if len(list) == 0 {
			return
		}
		b.process(list)
	}
}
