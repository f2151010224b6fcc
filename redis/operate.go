package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
)

// List implements [backend.Lister]. It scans every key of every master, a thousand at a time.
func (b *Backend) List(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	err := b.call(ctx, nil, func(ctx context.Context) (err error) {
		keys, err = b.scan(ctx, prefix)
		return err
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

func (b *Backend) scan(ctx context.Context, prefix string) (keys []string, err error) {
	const page = 1000
	var mu sync.Mutex
	seen := make(map[string]bool)
	all := b.naming.namespace + ":{"
	one := func(ctx context.Context, c *redis.Client) error {
		scan := c.Scan(ctx, 0, endpoint.GlobEscaper.Replace(all)+"*}lock:"+endpoint.GlobEscaper.Replace(prefix)+"*",
			page).Iterator()
		for scan.Next(ctx) {
			_, key, ok := strings.Cut(strings.TrimPrefix(scan.Val(), all), "}lock:")
			mu.Lock()
			if ok && strings.HasPrefix(key, prefix) && !seen[key] && b.naming.lock(key) == scan.Val() {
				seen[key] = true
				keys = append(keys, key)
			}
			mu.Unlock()
		}
		return scan.Err()
	}
	switch c := b.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, one)
	case *redis.Client:
		err = one(ctx, c)
	default:
		err = fmt.Errorf("%w: list with a client of type %T", backend.ErrUnsupported, c)
	}
	return keys, err
}

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		h, err := b.inspect(ctx, key, owner)
		if err != nil {
			return err
		}
		if h.Owner != owner || h.Token == 0 { // 0: the key is only reserved for this owner
			return backend.ErrLost
		}
		removed, unsure, err := b.release(ctx, b.naming.names(key), lockValue(h.Token, owner), h.Shared > 0)
		if err == nil && !removed && !unsure {
			err = backend.ErrLost
		}
		return err
	})
}
