package zookeeper

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// The benchmarks compare this store with the library's own lock in the same run. The servers force each write to the
// disk, as they do by default. With ANYLOCK_BENCH_FORCESYNC=no, they do not.

func benchServer(b *testing.B) string {
	force := os.Getenv("ANYLOCK_BENCH_FORCESYNC")
	if force == "" {
		force = "yes"
	}
	return servers.ZooKeeper(b, "forceSync="+force).Addr
}

// benchClient returns a Backend whose requests do not time out while the disk is busy.
func benchClient(b *testing.B, addr string) *Backend {
	c, err := New(context.Background(), []string{addr}, &Options{Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	return c
}

// BenchmarkSerial measures acquires and releases by one client, of one key (warm) and of a new key each time (fresh).
// The stores take turns, whichever is measured, because a server becomes faster over time and the machine has other
// work. vs-zk.Lock is how many times as fast as zk.Lock the store is in the same turns.
func BenchmarkSerial(b *testing.B) {
	addr := benchServer(b)
	ctx := context.Background()
	c := benchClient(b, addr)
	conn := raw(b, addr)
	const library = "zk.Lock"
	ours := func(r func(string, time.Duration) backend.Request) func(key string) error {
		return func(key string) error {
			l, err := c.Acquire(ctx, r(key, 5*time.Second))
			if err != nil {
				return err
			}
			return l.Release(ctx)
		}
	}
	theirs := func(key string) error {
		l := zk.NewLock(conn, "/"+key, zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	}
	stores := []struct {
		name string
		do   func(key string) error
	}{{"anylock", ours(waiting)}, {"anylock-try", ours(req)}, {library, theirs}}
	fresh := 0
	for _, scenario := range []string{"warm", "fresh"} {
		key := func() string {
			if scenario == "warm" {
				return scenario
			}
			fresh++
			return fmt.Sprint(scenario, fresh)
		}
		for range 300 {
			for _, s := range stores {
				if err := s.do(key()); err != nil {
					b.Fatal(s.name, err)
				}
			}
		}
		for _, measured := range stores {
			b.Run("scenario="+scenario+"/store="+measured.name, func(b *testing.B) {
				took := make(map[string]time.Duration)
				turn := func(name string, do func(string) error) {
					begun := time.Now()
					if err := do(key()); err != nil {
						b.Fatal(name, err)
					}
					took[name] += time.Since(begun)
				}
				for b.Loop() {
					b.StopTimer()
					for _, s := range stores {
						if s.name != measured.name {
							turn(s.name, s.do)
						}
					}
					b.StartTimer()
					turn(measured.name, measured.do)
				}
				b.ReportMetric(float64(b.N)/took[measured.name].Seconds(), "pairs/s")
				b.ReportMetric(float64(took[library])/float64(took[measured.name]), "vs-"+library)
			})
		}
	}
}

const contenders = 8

// BenchmarkHot measures hand-offs between eight clients that contend for one key and release it at once. Turns of a
// hundred hand-offs alternate with a hundred by zk.Lock.
func BenchmarkHot(b *testing.B) {
	addr := benchServer(b)
	ctx := context.Background()
	var clients []*Backend
	var locks []*zk.Lock
	for range contenders {
		clients = append(clients, benchClient(b, addr))
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

// BenchmarkRefused measures a try that finds the key busy.
func BenchmarkRefused(b *testing.B) {
	addr := benchServer(b)
	c := benchClient(b, addr)
	ctx := context.Background()
	acquire(b, c, req("busy", time.Hour))
	for b.Loop() {
		if _, err := c.Acquire(ctx, req("busy", time.Hour)); err == nil {
			b.Fatal("granted")
		}
	}
}

// BenchmarkDistinct measures 64 workers on eight clients. Each worker has its own key. Ten cycles of every worker
// alternate with ten by zk.Lock.
func BenchmarkDistinct(b *testing.B) {
	addr := benchServer(b)
	ctx := context.Background()
	const workers = 8 * contenders
	var clients []*Backend
	var conns []*zk.Conn
	for range contenders {
		clients = append(clients, benchClient(b, addr))
		conns = append(conns, raw(b, addr))
	}
	each := func(do func(client int, key string) error) time.Duration {
		const cycles = 10
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				for range cycles {
					if err := do(i%contenders, fmt.Sprint("d", i)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		return time.Since(begun)
	}
	ours := func(i int, key string) error {
		l, err := clients[i].Acquire(ctx, waiting(key, 5*time.Second))
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
	theirs := func(i int, key string) error {
		l := zk.NewLock(conns[i], "/"+key, zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	}
	each(ours)
	each(theirs)
	var we, they time.Duration
	for b.Loop() {
		we += each(ours)
		they += each(theirs)
	}
	b.ReportMetric(float64(they)/float64(we), "vs-zk.Lock")
}
