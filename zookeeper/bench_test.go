package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/internal/servers"
)

// The library's own lock, for comparison, beside ours in the same run. The servers force each write to the disk, as they do
// when they are not told otherwise.

func benchServer(b *testing.B) string { return servers.ZooKeeper(b, "forceSync=yes").Addr }

// BenchmarkSerial is one acquire and release after the other by one client.
func BenchmarkSerial(b *testing.B) {
	addr := benchServer(b)
	b.Run("anylock", func(b *testing.B) {
		c := opened(b, "zookeeper://"+addr)
		ctx := context.Background()
		for b.Loop() {
			l, err := c.Acquire(ctx, waiting("serial", 5*time.Second))
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Release(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("try", func(b *testing.B) {
		c := opened(b, "zookeeper://"+addr)
		ctx := context.Background()
		for b.Loop() {
			l, err := c.Acquire(ctx, req("serial", 5*time.Second))
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Release(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("zk.Lock", func(b *testing.B) {
		l := zk.NewLock(raw(b, addr), "/serial", zk.WorldACL(zk.PermAll))
		for b.Loop() {
			if err := l.Lock(); err != nil {
				b.Fatal(err)
			}
			if err := l.Unlock(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

const contenders = 8

// BenchmarkHot is one hand-off between eight clients that want the same key and do not keep it.
func BenchmarkHot(b *testing.B) {
	addr := benchServer(b)
	b.Run("anylock", func(b *testing.B) {
		var clients []*Backend
		for range contenders {
			clients = append(clients, opened(b, "zookeeper://"+addr))
		}
		contend(b, func(i int) error {
			ctx := context.Background()
			l, err := clients[i].Acquire(ctx, waiting("hot", 5*time.Second))
			if err != nil {
				return err
			}
			return l.Release(ctx)
		})
	})
	b.Run("zk.Lock", func(b *testing.B) {
		var locks []*zk.Lock
		for range contenders {
			locks = append(locks, zk.NewLock(raw(b, addr), "/hot", zk.WorldACL(zk.PermAll)))
		}
		contend(b, func(i int) error {
			if err := locks[i].Lock(); err != nil {
				return err
			}
			return locks[i].Unlock()
		})
	})
}

// contend shares b.N turns among the contenders.
func contend(b *testing.B, turn func(i int) error) {
	turns := make(chan struct{})
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() {
			for range turns {
				if err := turn(i); err != nil {
					b.Error(fmt.Errorf("contender %d: %w", i, err))
				}
			}
		})
	}
	b.ResetTimer()
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	wg.Wait()
}

// BenchmarkRefused is a try that finds the key busy.
func BenchmarkRefused(b *testing.B) {
	addr := benchServer(b)
	c := opened(b, "zookeeper://"+addr)
	ctx := context.Background()
	acquire(b, c, req("busy", time.Hour))
	for b.Loop() {
		if _, err := c.Acquire(ctx, req("busy", time.Hour)); err == nil {
			b.Fatal("granted")
		}
	}
}
