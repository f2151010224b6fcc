package readers

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
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
	server := servers.Redis(t)
	near := func(_ *testing.T, open specimens.Open) conformance.Harness {
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, server.Addr) },
		}
	}
	specimens.Prove(t, Collection, near, specimens.For("readers-checked-before", far(server.Addr)))
}

// far reaches the server as from another host, so that there is time between two requests.
func far(addr string) specimens.HarnessMaker {
	return func(t *testing.T, open specimens.Open) conformance.Harness {
		l, err := link.New(addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		for _, way := range []conformance.Direction{conformance.ToStore, conformance.FromStore} {
			l.Delay(way, 3*time.Millisecond)
		}
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, l.Addrs()...) },
		}
	}
}
