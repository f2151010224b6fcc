package redis

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, redistest.Durable...)
	storetest.Main(t, func(t *testing.T) conformance.Harness { return harness(t, s) })
}

// The core suite passes on releases that are older and newer than the one on this machine.
func TestConformanceVersions(t *testing.T) {
	storetest.Long(t, "other releases of Redis")
	for _, name := range servers.RedisVersions {
		t.Run(name, func(t *testing.T) { // not parallel, because each suite keeps the machine busy
			s := redistest.Version(t, name, redistest.Durable...)
			conformance.RunCore(t, func(t *testing.T) conformance.Harness { return harness(t, s) })
		})
	}
}

// harness returns the harness of a server that keeps its data across restarts.
func harness(t *testing.T, s *servers.Server) conformance.Harness {
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) {
			return openURL(ctx, "redis://"+s.Addr)
		},
		Evict:        func(ctx context.Context, key string) error { return evict(ctx, s.Addr, key) },
		Freeze:       s.Freeze,
		Thaw:         s.Thaw,
		Fill:         func() func() { return redistest.Fill(t, s.Addr) },
		Restart:      func() { s.Kill(); s.Start() },
		RestartEmpty: s.RestartEmpty(),
		StepClock:    s.StepClock(),
		Cut:          func(backend.Backend) { redistest.Cut(t, s.Addr) },
		Linked:       link.URL("redis://" + s.Addr),
		Process:      process.Self("redis://" + s.Addr),
		Footprint:    func() (int64, error) { return footprint(s.Addr) },
	}
}

// footprint returns the number of keys on a server. They include one token counter for each slot in use.
func footprint(addr string) (int64, error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	return c.DBSize(context.Background()).Result()
}

// In a cluster, keys are in different slots, and batches go to several servers.
func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	nodes := cluster(t)
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr
	}
	url := "redis+cluster://" + strings.Join(addrs, ",")
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
			Evict: func(ctx context.Context, key string) error {
				c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
				defer c.Close()
				return c.Del(ctx, naming{endpoint.DefaultNamespace}.lock(key)).Err()
			},
		}
	}, "keys", "renewal")
}

func TestConformanceSentinel(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "Sentinels")
	set := servers.RedisSentinel(t)
	url := sentinelURLOf(set) + "?lock_min_replicas=1"
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open:  func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
			Evict: func(ctx context.Context, key string) error { return evict(ctx, set.Master.Addr, key) },
		}
	})
}

// The suite passes on a caller's client with default options, which ignores deadlines.
func TestConformanceCallersClient(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "the suite once more")
	s := servers.Redis(t)
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		open := func(ctx context.Context, addrs []string) (backend.Backend, error) {
			c := redis.NewClient(&redis.Options{Addr: addrs[0]})
			b, err := New(ctx, c, nil)
			if err != nil {
				_ = c.Close()
				return nil, err
			}
			t.Cleanup(func() { _ = c.Close() })
			return b, nil
		}
		linked := link.Linked([]string{s.Addr}, open)
		return conformance.Harness{
			Open:   func(ctx context.Context) (backend.Backend, error) { return open(ctx, []string{s.Addr}) },
			Evict:  func(ctx context.Context, key string) error { return evict(ctx, s.Addr, key) },
			Freeze: s.Freeze,
			Thaw:   s.Thaw,
			Cut:    func(backend.Backend) { redistest.Cut(t, s.Addr) },
			Linked: linked,
			Skip:   map[string]string{"CloseLeavesNoConnection": "the client is the caller's, and so is closing it"},
		}
	}, "cuts", "partitions", "late", "cancel")
}

func sentinelURLOf(set *servers.Sentinel) string {
	addrs := make([]string, len(set.Sentinels))
	for i, s := range set.Sentinels {
		addrs[i] = s.Addr
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + set.Name
}

// openURL opens a store as package lock does.
func openURL(ctx context.Context, url string) (*Backend, error) {
	b, _, err := driver.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return b.(*Backend), nil
}

func evict(ctx context.Context, addr, key string) error {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	return c.Del(ctx, naming{endpoint.DefaultNamespace}.lock(key)).Err()
}
