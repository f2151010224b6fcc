package locktests

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// If a store has lost its data, a process does not hand its old lease to its own waiters while the next owner holds the
// key.
func TestLostDataEndsHandOffs(t *testing.T) {
	stores := map[string]func(t *testing.T) (url string, wipe func() error){
		"redis": func(t *testing.T) (string, func() error) {
			s := servers.Redis(t)
			c := redis.NewClient(&redis.Options{Addr: s.Addr})
			t.Cleanup(func() { _ = c.Close() })
			return "redis://" + s.Addr, func() error { return c.FlushAll(t.Context()).Err() }
		},
		"memcached": func(t *testing.T) (string, func() error) {
			s := servers.Memcached(t)
			c := memcache.New(s.Addr)
			c.Timeout = storetest.Soon
			t.Cleanup(func() { _ = c.Close() })
			return "memcached://" + s.Addr, c.FlushAll
		},
	}
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			url, wipe := start(t)
			a, b := open(t, url), open(t, url)
			first, err := a.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			var begun atomic.Int32
			var waiters sync.WaitGroup
			for range 16 {
				waiters.Go(func() {
					l, err := a.Acquire(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					begun.Add(1)
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(50 * time.Millisecond) // sleeps: time for the waiters to queue up
			if err := wipe(); err != nil {
				t.Fatal(err)
			}
			other, err := b.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("release of the lost lease: %v, want ErrLost", err)
			}
			time.Sleep(100 * time.Millisecond) // sleeps: the other owner's work
			if n := begun.Load(); n > 0 {
				t.Errorf("%d holders began beside the next owner", n)
			}
			if err := other.Release(t.Context()); err != nil {
				t.Error(err)
			}
			waiters.Wait()
		})
	}
}
