package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// Helpers that the benchmarks of all stores share.
var (
	together = storetest.Together
	cycle    = storetest.Cycle
)

// BenchmarkUncontended measures one goroutine, and many goroutines that each use their own key.
func BenchmarkUncontended(b *testing.B) {
	s := servers.Redis(b)
	ctx := context.Background()
	for _, workers := range []int{1, 64} {
		b.Run(fmt.Sprintf("op=acquire-release/workers=%d", workers), func(b *testing.B) {
			store := opened(b, fmt.Sprintf("redis://%s?pool_size=%d", s.Addr, workers+1))
			together(b, workers, func(w int) {
				cycle(b, store, req(fmt.Sprint("k", w), time.Minute))
			})
		})
		b.Run(fmt.Sprintf("op=share-release/workers=%d", workers), func(b *testing.B) { // readers of one key
			store := opened(b, fmt.Sprintf("redis://%s?pool_size=%d", s.Addr, workers+1))
			together(b, workers, func(int) { cycle(b, store, shared(req("k", time.Minute))) })
		})
		b.Run(fmt.Sprintf("op=renew/workers=%d", workers), func(b *testing.B) {
			store := opened(b, fmt.Sprintf("redis://%s?pool_size=%d", s.Addr, workers+1))
			leases := make([]backend.Lease, workers)
			for w := range leases {
				leases[w] = acquire(b, store, req(backend.NewOwner(), time.Hour))
				defer release(b, leases[w])
			}
			together(b, workers, func(w int) {
				if err := leases[w].Renew(ctx, time.Hour); err != nil {
					b.Error(err)
				}
			})
		})
		// The baseline: a plain SET NX PX and DEL.
		b.Run(fmt.Sprintf("op=set-del/workers=%d", workers), func(b *testing.B) {
			c := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: workers + 1})
			defer c.Close()
			together(b, workers, func(w int) {
				key := fmt.Sprint("s", w)
				c.SetNX(ctx, key, "x", time.Minute)
				c.Del(ctx, key)
			})
		})
	}
}

// BenchmarkHandOff passes one key between Backends. Each has its own connections, like a process.
func BenchmarkHandOff(b *testing.B) {
	for _, processes := range []int{2, 64} {
		b.Run(fmt.Sprintf("op=hand-off/workers=%d", processes), func(b *testing.B) {
			s := servers.Redis(b)
			stores := make([]*Backend, processes)
			for i := range stores {
				stores[i] = opened(b, "redis://"+s.Addr)
			}
			together(b, processes, func(w int) {
				cycle(b, stores[w], waiting("k", time.Minute))
			})
		})
	}
}

// BenchmarkRenewBatch renews ten thousand leases in one call.
func BenchmarkRenewBatch(b *testing.B) {
	const leases = 10000
	s := servers.Redis(b)
	nodes := servers.RedisCluster(b, 3)
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr
	}
	for kind, url := range map[string]string{
		"single": "redis://" + s.Addr, "cluster": "redis+cluster://" + strings.Join(addrs, ","),
	} {
		b.Run(fmt.Sprintf("op=renew-batch/leases=%d/kind=%s", leases, kind), func(b *testing.B) {
			store := opened(b, url)
			list := storetest.HoldMany(b, store, 0, leases, time.Hour)
			storetest.RenewMany(b, store, list)
			storetest.ReleaseMany(list)
		})
	}
}
