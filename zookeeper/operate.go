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

// Break implements [backend.Breaker]. It deletes the nodes of owner among those that hold the key: a holder watches its
// node. Other readers keep theirs.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.call(ctx, backend.ValidateKey(key), func(ctx context.Context, s *session) error {
		dir := b.dir(key)
		names, err := s.currentChildren(ctx, dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		broken := backend.ErrLost // until a node is deleted
		for _, p := range holdersOf(queueOf(names)) {
			path := dir + "/" + p.name
			name := p.owner()
			if name == "" { // it was cut in the name
				_, name, err = s.record(ctx, path)
			}
			if err == nil && name == owner {
				if err = s.delete(ctx, path); err == nil {
					broken = nil
				}
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			err = nil
		}
		return broken
	})
}
