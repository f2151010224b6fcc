package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
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
	var mu sync.Mutex
	seen := make(map[string]bool)
	all := b.naming.namespace + ":{"
	pattern := endpoint.GlobEscaper.Replace(all) + "*}lock:" + endpoint.GlobEscaper.Replace(prefix) + "*"
	add := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		_, key, ok := strings.Cut(strings.TrimPrefix(name, all), "}lock:")
		if ok && strings.HasPrefix(key, prefix) && !seen[key] && b.naming.lock(key) == name {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	one := func(ctx context.Context, c *redis.Client) error {
		for cursor := uint64(0); ; {
			names, next, err := b.scanPage(ctx, c, cursor, pattern)
			if err != nil {
				return err
			}
			for _, name := range names {
				add(name)
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
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

// scanPage makes one request of a scan, within Options.Timeout and ctx whatever the client does. It returns the cursor
// of the next request, which is 0 after the last.
func (b *Backend) scanPage(
	ctx context.Context, c *redis.Client, cursor uint64, pattern string,
) (names []string, next uint64, err error) {
	const most = 1000 // names, roughly
	type page struct {
		names []string
		next  uint64
	}
	v, err := exchange.Await(ctx, b.leases.Go, time.Now().Add(b.options.Timeout), exchange.Request{},
		func(ctx context.Context) (any, error) {
			names, next, err := c.Scan(ctx, cursor, pattern, most).Result()
			return page{names, next}, err
		})
	if err != nil {
		return nil, 0, err
	}
	p := v.(page)
	return p.names, p.next, nil
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
