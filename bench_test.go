package lock_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// BenchmarkLocker measures package lock on a store in memory. BenchmarkUncontended in package memory measures that
// store alone.
func BenchmarkLocker(b *testing.B) {
	open := func(b *testing.B) *lock.Locker {
		l, err := lock.New(memory.New())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Close() })
		return l
	}
	pair := func(b *testing.B, l *lock.Locker, key string) {
		lease, err := l.Acquire(context.Background(), key)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("op=uncontended", func(b *testing.B) {
		l := open(b)
		b.ReportAllocs()
		for b.Loop() {
			pair(b, l, "k")
		}
	})
	b.Run("op=parallel-keys", func(b *testing.B) {
		l := open(b)
		var n atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			key := strconv.FormatInt(n.Add(1), 10)
			for p.Next() {
				pair(b, l, key)
			}
		})
	})
	b.Run("op=one-hot-key", func(b *testing.B) {
		l := open(b)
		b.SetParallelism(16)
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				pair(b, l, "hot")
			}
		})
	})
}
