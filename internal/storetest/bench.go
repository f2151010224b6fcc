package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// Together runs f b.N times in total, on workers goroutines. f receives the number of its goroutine.
func Together(b *testing.B, workers int, f func(worker int)) {
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

// Cycle acquires and releases a lease. Unlike other functions of this package, it may be called on any goroutine.
func Cycle(t testing.TB, b backend.Backend, r backend.Request) {
	l, err := b.Acquire(context.Background(), r)
	if err == nil {
		err = l.Release(context.Background())
	}
	if err != nil {
		t.Error(err)
	}
}

// HoldMany acquires n leases on keys that are numbered from first. It returns renewals to the same TTL.
func HoldMany(t testing.TB, b backend.Backend, first, n int, ttl time.Duration) []backend.Renewal {
	t.Helper()
	list := make([]backend.Renewal, n)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				l, err := b.Acquire(context.Background(), Try(fmt.Sprint("many", first+i), ttl))
				if err != nil {
					t.Error(err)
					return
				}
				list[i] = backend.Renewal{Lease: l, TTL: ttl}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return list
}

// RenewMany measures one call that renews all of list.
func RenewMany(b *testing.B, s backend.BatchRenewer, list []backend.Renewal) {
	b.Helper()
	for b.Loop() {
		for _, err := range s.RenewBatch(context.Background(), list) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// ReleaseMany releases all of list, and ignores errors.
func ReleaseMany(list []backend.Renewal) {
	for _, r := range list {
		_ = r.Lease.Release(context.Background())
	}
}
