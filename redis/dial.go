package redis

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/eager"
)

// eagerDialer is go-redis' own dialer, for connections that fetch an answer that comes soon without a thread's sleep.
// Those of TLS stay as they are.
func eagerDialer(o *redis.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := redis.NewDialer(o)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return eager.New(c), nil
	}
}
