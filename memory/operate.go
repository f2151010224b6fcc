package memory

import (
	"context"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// List implements backend.Lister.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	if b.leases.Closed() {
		return nil, backend.ErrClosed
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return nil, err
	}
	s := b.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		if e != s.spare && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Break implements backend.Breaker.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	if err := backend.ValidateKey(key); err != nil {
		return err
	}
	if b.leases.Closed() {
		return backend.ErrClosed
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return err
	}
	s := b.store
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.heldLocked(key, time.Now())
	if e == nil || e.owner != owner {
		return backend.ErrLost
	}
	s.endLocked(e)
	return nil
}
