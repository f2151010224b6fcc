package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

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
	specimens.Prove(t, Collection, three, specimens.For("majority-of-the-reachable", partitioned))
}

func start(t *testing.T, n int) (nodes []*servers.Server, addrs []string) {
	for range n {
		s := servers.Redis(t, "--appendonly", "yes")
		nodes, addrs = append(nodes, s), append(addrs, s.Addr)
	}
	return nodes, addrs
}

// three nodes.
func three(t *testing.T, open specimens.Open) conformance.Harness {
	nodes, addrs := start(t, 3)
	h := conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, addrs...) },
		Evict: func(ctx context.Context, key string) error {
			for _, addr := range addrs {
				c := redis.NewClient(&redis.Options{Addr: addr})
				defer c.Close()
				if err := c.Del(ctx, name(key)).Err(); err != nil {
					return err
				}
			}
			return nil
		},
		Freeze: func() { each(nodes, (*servers.Server).Freeze) },
		Thaw:   func() { each(nodes, (*servers.Server).Thaw) },
		Outage: 4 * time.Second,
	}
	for _, n := range nodes {
		h.Members = append(h.Members, conformance.Member{Freeze: n.Freeze, Thaw: n.Thaw, Stop: n.Kill, Start: n.Start})
	}
	return h
}

func each(nodes []*servers.Server, do func(*servers.Server)) {
	for _, n := range nodes {
		do(n)
	}
}

// partitioned are five nodes, of which each client reaches three. Two clients in turn have one of them in common.
func partitioned(t *testing.T, open specimens.Open) conformance.Harness {
	_, addrs := start(t, 5)
	const nobody = "127.0.0.1:1"
	sides := [][]string{
		{addrs[0], addrs[1], addrs[2], nobody, nobody},
		{nobody, nobody, addrs[2], addrs[3], addrs[4]},
	}
	var opened atomic.Int64
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, sides[opened.Add(1)%2]...) },
	}
}
