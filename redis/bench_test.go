package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// BenchmarkUncontended measures one goroutine, or many on keys of their own.
func BenchmarkUncontended(b *testing.B) {
	s := servers.Redis(b)
	ctx := context.Background()
	for _, workers := range []int{1, 64} {
		b.Run(fmt.Sprintf("op=acquire-release/workers=%d", workers), func(b *testing.B) {
			store := opened(b, fmt.Sprintf("redis://%s?pool_size=%d", s.Addr, workers+1))
			together(b, workers, func(w int) {
				l, err := store.Acquire(ctx, req(fmt.Sprint("k", w), time.Minute))
				if err == nil {
					err = l.Release(ctx)
				}
				if err != nil {
					b.Error(err)
				}
			})
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
		// What the server and its client allow: a plain SET NX PX and DEL.
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

// BenchmarkHandOff passes one key around processes, each with a connection of its own.
func BenchmarkHandOff(b *testing.B) {
	for _, processes := range []int{2, 64} {
		b.Run(fmt.Sprintf("op=hand-off/workers=%d", processes), func(b *testing.B) {
			s := servers.Redis(b)
			stores := make([]*Backend, processes)
			for i := range stores {
				stores[i] = opened(b, "redis://"+s.Addr)
			}
			together(b, processes, func(w int) {
				l, err := stores[w].Acquire(context.Background(), waiting("k", time.Minute))
				if err == nil {
					err = l.Release(context.Background())
				}
				if err != nil {
					b.Error(err)
				}
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
			list := make([]backend.Renewal, leases)
			var wg sync.WaitGroup
			var next atomic.Int64
			for range 32 {
				wg.Go(func() {
					for i := next.Add(1) - 1; i < leases; i = next.Add(1) - 1 {
						list[i] = backend.Renewal{Lease: acquire(b, store, req(fmt.Sprint("b", i), time.Hour)), TTL: time.Hour}
					}
				})
			}
			wg.Wait()
			for b.Loop() {
				for _, err := range store.RenewBatch(context.Background(), list) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			for _, r := range list {
				_ = r.Lease.Release(context.Background())
			}
		})
	}
}

// together runs f b.N times on so many goroutines.
func together(b *testing.B, workers int, f func(w int)) {
	b.Helper()
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				f(w)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}
