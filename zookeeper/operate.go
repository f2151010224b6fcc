package zookeeper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// listAtOnce is how many requests of a List are under way at once.
const listAtOnce = 64

// List implements [backend.Lister]. It reads the container of each key that begins with prefix, because the servers
// delete the containers of free keys only after a while.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.call(ctx, nil, func(ctx context.Context, s *session) error {
		names, err := s.currentChildren(ctx, b.root)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		for _, name := range names {
			if key, ok := keyNames.Decode(name); ok && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		keys, err = s.inUse(ctx, keys)
		return err
	})
	return keys, err
}

// inUse returns those of keys whose containers have children.
func (s *session) inUse(ctx context.Context, keys []string) (used []string, err error) {
	for part := range slices.Chunk(keys, listAtOnce) {
		counts, errs := make([]int, len(part)), make([]error, len(part))
		var wg sync.WaitGroup
		for i, key := range part {
			wg.Go(func() { counts[i], errs[i] = s.childCount(ctx, s.b.dir(key)) })
		}
		wg.Wait()
		for i, key := range part {
			switch err := errs[i]; {
			case err != nil && !errors.Is(err, zk.ErrNoNode):
				return nil, err
			case counts[i] > 0:
				used = append(used, key)
			}
		}
	}
	return used, nil
}

// Break implements [backend.Breaker]. It deletes the nodes of owner that hold the key, and their watches notify the
// holder. Other readers keep their nodes.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.call(ctx, backend.ValidateKey(key), func(ctx context.Context, s *session) error {
		dir := b.dir(key)
		names, err := s.currentChildren(ctx, dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		broken := backend.ErrLost // until a node is deleted
		for _, p := range holdersOf(queueOf(names)) {
			if p.owner() != owner {
				continue
			}
			unsure, err := s.delete(ctx, dir+"/"+p.name)
			switch {
			case err == nil, unsure && errors.Is(err, zk.ErrNoNode):
				broken = nil
			case !errors.Is(err, zk.ErrNoNode):
				return err
			}
		}
		return broken
	})
}
