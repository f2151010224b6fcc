package redis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) {
	specimens.Main(Collection)
	redis.SetLogger(quiet{}) // go-redis tells every outage; here they are made on purpose
	goleak.VerifyTestMain(m, storetest.GoRedisDials())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestSpecimens(t *testing.T) {
	storetest.Long(t, "each specimen and its twin go through the checks that tell them apart")
	specimens.Prove(t, Collection, func(t *testing.T, open specimens.Open) conformance.Harness {
		s := servers.Redis(t)
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, s.Addr) },
			Evict: func(ctx context.Context, key string) error {
				c := redis.NewClient(options(s.Addr))
				defer c.Close()
				return c.Del(ctx, lockName(key)).Err()
			},
			Freeze: s.Freeze,
			Thaw:   s.Thaw,
		}
	})
}
