package file

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anylock/lock/backend"
)

// List implements backend.Lister. It reads every bucket.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.leases.Call(ctx, nil, func(ctx context.Context) (err error) {
		for i := 0; i < buckets && err == nil; i++ {
			keys, err = b.store.list(ctx, b.store.path(fmt.Sprintf("%s%02x", bucketPrefix, i)), prefix, keys)
		}
		return err
	})
	return keys, err
}

// list appends the keys of a bucket that begin with prefix.
func (s *store) list(ctx context.Context, path, prefix string, keys []string) ([]string, error) {
	l, img, err := s.lock(ctx, path, false)
	if errors.Is(err, errAbsent) {
		return keys, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.close(l)
	b, err := s.decode(path, img.body, s.clock())
	for _, e := range b.entries {
		if strings.HasPrefix(string(e.key), prefix) {
			keys = append(keys, string(e.key))
		}
	}
	return keys, err
}

// Break implements backend.Breaker.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		holds := false // a waiter is not removed, because its Acquire would not notice
		err := b.read(ctx, key, func(r *record, _ int64) { holds = r.lease(owner) != nil })
		if err == nil && !holds {
			err = backend.ErrLost
		}
		if err != nil {
			return err
		}
		return b.release(ctx, key, owner)
	})
}
