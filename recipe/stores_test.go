//go:build linux

package recipe_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// A realStore is one that processes share.
type realStore struct {
	name  string
	start func(t *testing.T) (url string, addrs []string)
}

var realStores = []realStore{
	{"file", func(t *testing.T) (string, []string) { return "file://" + t.TempDir(), nil }},
	{"redis", func(t *testing.T) (string, []string) {
		s := servers.Redis(t)
		return "redis://" + s.Addr, []string{s.Addr}
	}},
	{"redlock", func(t *testing.T) (string, []string) {
		var addrs []string
		for range 3 {
			s := servers.Redis(t)
			servers.RedisSet(t, s, "anylock:redlock:birth", "new")
			addrs = append(addrs, s.Addr)
		}
		return "redis+redlock://" + strings.Join(addrs, ","), addrs
	}},
	{"etcd", func(t *testing.T) (string, []string) {
		s := servers.Etcd(t)
		return "etcd://" + s.Addr, []string{s.Addr}
	}},
	{"zookeeper", func(t *testing.T) (string, []string) {
		s := servers.ZooKeeper(t)
		return "zookeeper://" + s.Addr, []string{s.Addr}
	}},
	{"postgres", func(t *testing.T) (string, []string) {
		s := servers.Postgres(t, "max_connections=300")
		return s.PostgresURL(), []string{s.Addr}
	}},
	{"memcached", func(t *testing.T) (string, []string) {
		s := servers.Memcached(t)
		return "memcached://" + s.Addr, []string{s.Addr}
	}},
}

// Processes get permits in the order in which they came, where the store promises that for one key.
func TestSemaphoreFIFOOnStores(t *testing.T) {
	fifo := make(map[string]bool)
	for _, d := range backend.DefaultMux.Drivers() {
		fifo[d.Name] = d.Guarantees.FIFO
	}
	for _, s := range realStores {
		if !fifo[s.name] {
			continue // any waiter may be next
		}
		t.Run(s.name, func(t *testing.T) {
			storetest.Long(t, "a semaphore on every store")
			t.Parallel()
			url, _ := s.start(t)
			process := func() *lock.Locker {
				l, err := lock.Open(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				return l
			}
			first := process()
			const waiters = 5
			var held [permits]*lock.Lease
			for i := range held {
				held[i] = permit(t, semaphore(t, first, permits))
			}
			granted := make(chan int, waiters)
			var done sync.WaitGroup
			for i := range waiters {
				l := process()
				done.Go(func() {
					lease, err := semaphore(t, l, permits).Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					granted <- i
					release(t, lease)
				})
				for queued := false; !queued; time.Sleep(time.Millisecond) {
					h, err := first.Inspect(t.Context(), "mail/queue")
					if err != nil {
						t.Fatal(err)
					}
					queued = h.Held() && h.Waiters == i
				}
			}
			release(t, held[1])
			for i := range waiters {
				if got := <-granted; got != i {
					t.Errorf("grant %d went to waiter %d", i, got)
				}
			}
			release(t, held[0])
			done.Wait()
		})
	}
}
