package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// List implements [backend.Lister]. It scans every key of every master, a thousand at a time.
func (b *Backend) List(ctx context.Context, prefix string) ([]string, error) {
	return kit.Call(ctx, b.leases, nil, func(ctx context.Context) ([]string, error) {
		keys, err := b.list(ctx, prefix)
		return keys, exchange.Unavailable(ctx, err)
	})
}

func (b *Backend) list(ctx context.Context, prefix string) (keys []string, err error) {
	switch c := b.client.(type) {
	case *redis.Client, *redis.ClusterClient:
	default:
		return nil, fmt.Errorf("%w: list with a client of type %T", backend.ErrUnsupported, c)
	}
	namePrefix := b.naming.namespace + ":{"
	pattern := endpoint.GlobEscaper.Replace(namePrefix) + "*}lock:" + endpoint.GlobEscaper.Replace(prefix) + "*"
	names, err := onMasters(ctx, b, func(ctx context.Context, _ string, c redis.Cmdable) ([]string, error) {
		return b.scan(ctx, c, pattern)
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		_, key, ok := strings.Cut(strings.TrimPrefix(name, namePrefix), "}lock:")
		if ok && strings.HasPrefix(key, prefix) && b.naming.lock(key) == name {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys) // a scan may return a name twice
	return slices.Compact(keys), nil
}

// scan returns the names of one server that match pattern. Each request ends within Options.Timeout and ctx, whatever
// the client does.
func (b *Backend) scan(ctx context.Context, c redis.Cmdable, pattern string) (names []string, err error) {
	const most = 1000 // names in a reply, roughly
	for cursor := uint64(0); ; {
		page, err := exchange.Await(ctx, b.leases.Go, b.options.Timeout, func(ctx context.Context) (*redis.ScanCmd, error) {
			page := c.Scan(ctx, cursor, pattern, most)
			return page, page.Err()
		})
		if err != nil {
			return nil, err
		}
		some, next := page.Val()
		names = append(names, some...)
		if cursor = next; cursor == 0 {
			return names, nil
		}
	}
}

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
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
