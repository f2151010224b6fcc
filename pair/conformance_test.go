package pair_test

import (
	"context"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
)

func TestConformanceFirstsNumbers(t *testing.T) {
	t.Parallel()
	storetest.Main(t, func(*testing.T) conformance.Harness { return onMemory(backend.TokenLimit - 1) })
}

func TestConformanceSecondsNumbers(t *testing.T) {
	t.Parallel()
	conformance.RunCore(t, func(*testing.T) conformance.Harness { return onMemory(0) }, "tokens")
}

// onMemory returns a harness for a pair of two stores in memory.
func onMemory(cut uint64) conformance.Harness {
	first, second := memory.NewStore(), memory.NewStore()
	return conformance.Harness{Open: func(context.Context) (backend.Backend, error) {
		return pair.New(pair.Store{Backend: first.Client()}, pair.Store{Backend: second.Client()}, cut), nil
	}}
}

// The suite runs on two real stores. Both are frozen together, and killed and restarted together.
func TestConformanceRedisPostgres(t *testing.T) {
	storetest.Long(t, "the suite on two servers")
	t.Parallel()
	r := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	p := servers.Postgres(t, "max_connections=900")
	const many = 14 // leases of one client; each uses a connection of Postgres
	url := pair.URL("redis://"+r.Addr, p.PostgresURL(), 0)
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open:    func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
			Freeze:  func() { r.Freeze(); p.Freeze() },
			Thaw:    func() { p.Thaw(); r.Thaw() },
			Restart: func() { r.Kill(); p.Kill(); r.Start(); p.Start() },
			Process: process.Self(url),
			Many:    many,
		}
	}, "faults", "processes")
}
