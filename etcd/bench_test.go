package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// Helpers that the benchmarks of all stores share.
var (
	together = storetest.Together
	cycle    = storetest.Cycle
	holdMany = storetest.HoldMany
)

// benchTTL is the default TTL of package lock.
const benchTTL = 30 * time.Second

// BenchmarkUncontended compares acquire and release, and a failed try, with concurrency.Mutex, on one goroutine. It
// also measures renewals.
func BenchmarkUncontended(b *testing.B) {
	s := servers.EtcdCurrent(b)
	ctx := context.Background()
	store, client := opened(b, "etcd://"+s.Addr), raw(b, s.Addr)
	b.Run("op=acquire-release/by=anylock", func(b *testing.B) {
		together(b, 1, func(int) { cycle(b, store, req("serial", benchTTL)) })
	})
	b.Run("op=acquire-release/by=mutex", func(b *testing.B) {
		m := concurrency.NewMutex(session(b, client), "mutex/serial")
		together(b, 1, func(int) { mutexCycle(b, m) })
	})
	b.Run("op=acquire-release/by=anylock/waits=true", func(b *testing.B) {
		together(b, 1, func(int) { cycle(b, store, waiting("serial", benchTTL)) })
	})
	b.Run("op=renew/by=anylock", func(b *testing.B) {
		l := acquire(b, store, req("renewed", time.Hour))
		together(b, 1, func(int) {
			if err := l.Renew(ctx, time.Hour); err != nil {
				b.Error(err)
			}
		})
		release(b, l)
	})
	b.Run("op=failed-try/by=anylock", func(b *testing.B) {
		defer release(b, acquire(b, store, req("held", time.Hour)))
		together(b, 1, func(int) {
			if _, err := store.Acquire(ctx, req("held", benchTTL)); err == nil {
				b.Error("a second owner")
			}
		})
	})
	b.Run("op=failed-try/by=mutex", func(b *testing.B) {
		holder := concurrency.NewMutex(session(b, client), "mutex/held")
		if err := holder.Lock(ctx); err != nil {
			b.Fatal(err)
		}
		m := concurrency.NewMutex(session(b, client), "mutex/held")
		together(b, 1, func(int) {
			if err := m.TryLock(ctx); err == nil {
				b.Error("a second owner")
			}
		})
	})
}

// BenchmarkHandOff passes one key between clients that release it at once. Each client has its own connection. Up to 8
// clients are compared with concurrency.Mutex.
func BenchmarkHandOff(b *testing.B) {
	s := servers.EtcdCurrent(b)
	for _, clients := range []int{2, 8, 64} {
		b.Run(fmt.Sprintf("op=hand-off/by=anylock/workers=%d", clients), func(b *testing.B) {
			stores := make([]*Backend, clients)
			for i := range stores {
				stores[i] = opened(b, "etcd://"+s.Addr)
			}
			key := backend.NewOwner()
			together(b, clients, func(w int) { cycle(b, stores[w], waiting(key, benchTTL)) })
		})
		if clients > 8 {
			continue
		}
		b.Run(fmt.Sprintf("op=hand-off/by=mutex/workers=%d", clients), func(b *testing.B) {
			mutexes := make([]*concurrency.Mutex, clients)
			key := "mutex/" + backend.NewOwner()
			for i := range mutexes {
				mutexes[i] = concurrency.NewMutex(session(b, raw(b, s.Addr)), key)
			}
			together(b, clients, func(w int) { mutexCycle(b, mutexes[w]) })
		})
	}
}

// BenchmarkRenewBatch renews a thousand leases in one call.
func BenchmarkRenewBatch(b *testing.B) {
	const leases = 1000
	store := opened(b, "etcd://"+servers.EtcdCurrent(b).Addr)
	list := holdMany(b, store, 0, leases, time.Hour)
	storetest.RenewMany(b, store, list)
	storetest.ReleaseMany(list)
}

func mutexCycle(t testing.TB, m *concurrency.Mutex) {
	err := m.Lock(context.Background())
	if err == nil {
		err = m.Unlock(context.Background())
	}
	if err != nil {
		t.Error(err)
	}
}

func session(t testing.TB, c *clientv3.Client) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
