package redis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) {
	specimens.Main(Collection)
	logging.Disable() // go-redis logs every outage; here they are made on purpose
	goleak.VerifyTestMain(m, storetest.GoRedisDials())
}

func TestSpecimens(t *testing.T) {
	storetest.Long(t, "each specimen and its twin go through the checks that distinguish them")
	specimens.Prove(t, Collection, func(t *testing.T, open specimens.Open) conformance.Harness {
		s := servers.Redis(t)
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, s.Addr) },
			Evict: func(ctx context.Context, key string) error {
				c := redis.NewClient(Options(s.Addr))
				defer c.Close()
				return c.Del(ctx, lockName(key)).Err()
			},
			Freeze: s.Freeze,
			Thaw:   s.Thaw,
		}
	})
}
