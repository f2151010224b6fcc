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

// BenchmarkSerial is one acquire and release after the other, by one client, and in turns with it one by zk.Lock, because a
// server gets faster all the while.
func BenchmarkSerial(b *testing.B) {
	addr := benchServer(b)
	ctx := context.Background()
	c := opened(b, "zookeeper://"+addr)
	other := zk.NewLock(raw(b, addr), "/serial", zk.WorldACL(zk.PermAll))
	both := map[string]func() error{
		"acquire": func() error {
			l, err := c.Acquire(ctx, waiting("serial", 5*time.Second))
			if err != nil {
				return err
			}
			return l.Release(ctx)
		},
		"try": func() error {
			l, err := c.Acquire(ctx, req("serial", 5*time.Second))
			if err != nil {
				return err
			}
			return l.Release(ctx)
		},
		"zk.Lock": func() error {
			if err := other.Lock(); err != nil {
				return err
			}
			return other.Unlock()
		},
	}
	for range 300 {
		for what, do := range both {
			if err := do(); err != nil {
				b.Fatal(what, err)
			}
		}
	}
	took := make(map[string]time.Duration)
	for b.Loop() {
		for what, do := range both {
			begun := time.Now()
			if err := do(); err != nil {
				b.Fatal(what, err)
			}
			took[what] += time.Since(begun)
		}
	}
	for what, d := range took {
		b.ReportMetric(float64(b.N)/d.Seconds(), what+"/s")
	}
}

const contenders = 8

// BenchmarkHot is one hand-off between eight clients that want the same key and do not keep it, and in turns with a hundred
// of them a hundred by zk.Lock.
func BenchmarkHot(b *testing.B) {
	addr := benchServer(b)
	ctx := context.Background()
	var clients []*Backend
	var locks []*zk.Lock
	for range contenders {
		clients = append(clients, opened(b, "zookeeper://"+addr))
		locks = append(locks, zk.NewLock(raw(b, addr), "/hot", zk.WorldACL(zk.PermAll)))
	}
	ours := func(i int) error {
		l, err := clients[i].Acquire(ctx, waiting("hot", 5*time.Second))
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
	theirs := func(i int) error {
		if err := locks[i].Lock(); err != nil {
			return err
		}
		return locks[i].Unlock()
	}
	const turns = 100
	contend(b, 3*turns, ours)
	contend(b, 3*turns, theirs)
	var we, they time.Duration
	n := 0
	for b.Loop() {
		we += contend(b, turns, ours)
		they += contend(b, turns, theirs)
		n += turns
	}
	b.ReportMetric(float64(n)/we.Seconds(), "acquire/s")
	b.ReportMetric(float64(n)/they.Seconds(), "zk.Lock/s")
}

// contend shares n turns among the contenders, and returns how long they took.
func contend(b *testing.B, n int, turn func(i int) error) time.Duration {
	begun := time.Now()
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
	for range n {
		turns <- struct{}{}
	}
	close(turns)
	wg.Wait()
	return time.Since(begun)
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
