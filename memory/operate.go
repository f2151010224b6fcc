package memory

import (
	"context"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// List implements backend.Lister.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.leases.Call(ctx, nil, func(context.Context) error {
		s := b.store
		s.mu.Lock()
		defer s.mu.Unlock()
		for key := range s.keys {
			if strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		return nil
	})
	return keys, err
}

// Break implements backend.Breaker.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(context.Context) error {
		s := b.store
		s.mu.Lock()
		defer s.mu.Unlock()
		h := s.heldLocked(key, time.Now()).holdOf(owner)
		if h == nil {
			return backend.ErrLost
		}
		s.endLocked(h)
		return nil
	})
}
