package zookeeper

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// List implements [backend.Lister]. The servers delete the containers of free keys after a while.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.call(ctx, nil, func(ctx context.Context, s *session) error {
		names, err := s.currentChildren(ctx, b.root)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		for _, name := range names {
			if key, ok := keyNames.Decode(name); ok && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		return err
	})
	return keys, err
}

// Break implements [backend.Breaker]. It deletes the first node in the queue if the node is owner's. Its holder watches
// the node.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.call(ctx, backend.ValidateKey(key), func(ctx context.Context, s *session) error {
		dir := b.dir(key)
		h, first, err := s.holder(ctx, dir)
		if err == nil && h.Owner != owner {
			return backend.ErrLost
		}
		if err == nil {
			err = s.delete(ctx, dir+"/"+first)
		}
		if errors.Is(err, zk.ErrNoNode) {
			return backend.ErrLost
		}
		return err
	})
}
