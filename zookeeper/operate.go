package zookeeper

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// List implements [backend.Lister]. The servers remove the containers of free keys after a while.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.onAny(ctx, nil, func(ctx context.Context, s *session) error {
		names, err := s.latest(ctx, b.root)
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

// Break implements [backend.Breaker]. It removes the first node in the queue, if that is the owner's, which its holder watches.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.onAny(ctx, backend.ValidateKey(key), func(ctx context.Context, s *session) error {
		dir := b.dir(key)
		h, first, err := s.head(ctx, dir)
		if err != nil {
			return err
		}
		if h.Owner != owner {
			return backend.ErrLost
		}
		if err = s.remove(ctx, dir+"/"+first); errors.Is(err, zk.ErrNoNode) {
			return backend.ErrLost
		}
		return err
	})
}

// onAny makes a call by f, with a session, unless it is invalid.
func (b *Backend) onAny(ctx context.Context, invalid error, f func(ctx context.Context, s *session) error) error {
	return b.leases.Call(ctx, invalid, func(ctx context.Context) error {
		s, err := b.enterAny(b.limits.longest)
		if err != nil {
			return err
		}
		defer b.leave(s)
		if err = f(ctx, s); errors.Is(err, backend.ErrLost) {
			return err
		}
		return unavailable(ctx, err)
	})
}
