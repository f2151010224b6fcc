package readers

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/specimens"
	plain "github.com/anylock/lock/conformance/specimens/redis"
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
	specimens.Prove(t, Collection, near, specimens.For("check-then-add", far))
}

// near has the server on the host of its clients.
func near(t *testing.T, open specimens.Open) conformance.Harness {
	s := servers.Redis(t)
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, s.Addr) },
		Evict: func(ctx context.Context, key string) error {
			c := redis.NewClient(plain.Options(s.Addr))
			defer c.Close()
			const holders = 2 // the writer, and the readers
			return c.Del(ctx, names(key)[:holders]...).Err()
		},
		Freeze: s.Freeze,
		Thaw:   s.Thaw,
	}
}

// far has the server on another host: what may happen between two commands happens too seldom on one.
func far(t *testing.T, open specimens.Open) conformance.Harness {
	const distance = 10 * time.Millisecond
	l, err := link.New(servers.Redis(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	l.Delay(conformance.ToStore, distance)
	l.Delay(conformance.FromStore, distance)
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, l.Addrs()...) },
	}
}
