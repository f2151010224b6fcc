package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anylock/lock/backend"
)

// List implements backend.Lister. It reads every bucket.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	if err := b.calls.Enter(ctx, b.done, nil); err != nil {
		return nil, err
	}
	defer b.calls.End()
	for i := range buckets {
		path := b.store.path(fmt.Sprintf("%s%02x", bucketPrefix, i))
		if keys, err = b.store.list(ctx, path, prefix, keys); err != nil {
			return nil, cmp.Or(backend.ContextError(ctx, err), err)
		}
	}
	return keys, nil
}

// list appends the keys of a bucket.
func (s *store) list(ctx context.Context, path, prefix string, keys []string) ([]string, error) {
	l, img, err := s.lock(ctx, path, access{})
	if errors.Is(err, errAbsent) {
		return keys, nil
	}
	if err != nil {
		return nil, err
	}
	defer l.close()
	b, err := s.decode(path, img.body)
	if err != nil {
		return nil, err
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
		err = cmp.Or(backend.ContextError(ctx, err), err)
	}
	return err
}
