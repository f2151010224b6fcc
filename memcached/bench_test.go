package memcached

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// benchTimeout is the time limit of each request. It is long, because the machine may pause.
const benchTimeout = 30 * time.Second

// Helpers that the benchmarks of all stores share.
var (
	together = storetest.Together
	cycle    = storetest.Cycle
)

// BenchmarkUncontended measures one goroutine, and many goroutines that each use their own key.
func BenchmarkUncontended(b *testing.B) {
	s := servers.Memcached(b)
	ctx := context.Background()
	for _, workers := range []int{1, 8, 64} {
		store := opened(b, fmt.Sprintf("memcached://%s?timeout=%v&max_idle_conns=%d", s.Addr, benchTimeout, workers))
		b.Run(fmt.Sprintf("op=acquire-release/workers=%d", workers), func(b *testing.B) {
			together(b, workers, func(w int) {
				cycle(b, store, req(fmt.Sprint("k", w), time.Minute))
			})
		})
		b.Run(fmt.Sprintf("op=renew/workers=%d", workers), func(b *testing.B) {
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
		// The baseline: a plain add and delete, without a check of the owner.
		b.Run(fmt.Sprintf("op=add-delete/workers=%d", workers), func(b *testing.B) {
			c := memcache.New(s.Addr)
			c.Timeout, c.MaxIdleConns = benchTimeout, workers
			defer c.Close()
			together(b, workers, func(w int) {
				key := fmt.Sprint("s", w)
				if err := c.Add(&memcache.Item{Key: key, Value: []byte("x"), Expiration: 60}); err != nil {
					b.Error(err)
				}
				if err := c.Delete(key); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// BenchmarkHandOff passes one key between Backends. Each has its own connections, like a process. Waiters poll.
func BenchmarkHandOff(b *testing.B) {
	for _, processes := range []int{2, 16} {
		b.Run(fmt.Sprintf("op=hand-off/workers=%d", processes), func(b *testing.B) {
			s := servers.Memcached(b)
			stores := make([]*Backend, processes)
			for i := range stores {
				stores[i] = opened(b, fmt.Sprintf("memcached://%s?timeout=%v", s.Addr, benchTimeout))
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
	s := servers.Memcached(b)
	store := opened(b, fmt.Sprintf("memcached://%s?timeout=%v", s.Addr, benchTimeout))
	list := storetest.HoldMany(b, store, 0, leases, time.Hour)
	storetest.RenewMany(b, store, list)
	storetest.ReleaseMany(list)
}
