package etcd

import (
	"sync"

	"github.com/anylock/lock/internal/calls"
)

// A backlog is worked off in the background by one goroutine, each time all that has come until then.
type backlog[T any] struct {
	calls *calls.Calls
	work  func(list []T)

	mu      sync.Mutex
	list    []T
	working bool
}

func (b *backlog[T]) add(items ...T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, items...)
	if !b.working {
		b.working = b.calls.Background(b.workOff)
	}
}

func (b *backlog[T]) workOff() {
	for {
		b.mu.Lock()
		list := b.list
		b.list, b.working = nil, len(list) > 0
		b.mu.Unlock()
		if len(list) == 0 {
			return
		}
		b.work(list)
	}
}
