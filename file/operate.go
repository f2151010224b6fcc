package file

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anylock/lock/backend"
)

// List implements backend.Lister. It reads every bucket, without their locks.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	if b.leases.Closed() {
		return nil, backend.ErrClosed
	}
	for i := range buckets {
		if err := backend.ContextError(ctx, nil); err != nil {
			return nil, err
		}
		if keys, err = b.store.list(fmt.Sprintf("%s%02x", bucketPrefix, i), prefix, keys); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// list appends the keys of a bucket.
func (s *store) list(name, prefix string, keys []string) ([]string, error) {
	path := s.path(name)
	const attempts = 100 // each is overtaken by two writes
	for range attempts {
		b, ok, err := s.read(path)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		now := s.clock()
		for entries := b.entries; len(entries) > 0; {
			_, key, _, rest, over, err := nextEntry(entries)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if now < over && strings.HasPrefix(string(key), prefix) {
				keys = append(keys, string(key))
			}
			entries = rest
		}
		return keys, nil
	}
	return nil, fmt.Errorf("%w: %s changes all the time", backend.ErrUnavailable, path)
}

// Break implements backend.Breaker.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	h, err := b.Inspect(ctx, key)
	if err != nil {
		return err
	}
	if h.Owner != owner { // a waiter keeps its place: its Acquire would not know
		return backend.ErrLost
	}
	err = b.release(ctx, key, owner)
	if err != nil && !errors.Is(err, backend.ErrLost) {
		err = orContext(ctx, err)
	}
	return err
}
