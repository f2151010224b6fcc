package memcached

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// A lock with a TTL of one second never expires early, whatever the phase of the server's clock.
func TestShortestTTLNotEarly(t *testing.T) {
	// not parallel, because a slow machine loses the shortest leases
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+patient)
	const locks = 200
	var late atomic.Int32
	var wg sync.WaitGroup
	for i := range locks {
		phase := rand.N(1100 * time.Millisecond)
		wg.Go(func() {
			time.Sleep(phase) // sleeps: a random phase of the server's clock
			key := strconv.Itoa(i)
			before := time.Now()
			l, err := b.Acquire(context.Background(), req(key, time.Second))
			if errors.Is(err, backend.ErrLost) && time.Since(before) > time.Second*9/10 { // the machine stood still
				late.Add(1)
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			after := time.Now()
			freeAfter(t, s.Addr, b, key, before, after, time.Second)
			if left := time.Until(l.Deadline()); left > 0 {
				t.Errorf("%s: free, %v before its deadline", key, left)
			}
			select {
			case <-l.Lost():
			case <-time.After(soon): // on a busy machine the timer of the lease may run later than this
				t.Errorf("%s: free, and its holder was not notified", key)
			}
		})
	}
	wg.Wait()
	if n := late.Load(); n > locks/2 {
		t.Errorf("%d of %d locks were granted too late to measure anything", n, locks)
	}
}

// freeAfter polls the item of key, without changing it, until it has expired. It checks that the item expires neither
// early nor late.
func freeAfter(t *testing.T, addr string, b *Backend, key string, before, after time.Time, ttl time.Duration) {
	t.Helper()
	c := raw(t, addr)
	for ; ; time.Sleep(10 * time.Millisecond) {
		asked := time.Now()
		_, err := c.Get(lockName(key))
		free := errors.Is(err, memcache.ErrCacheMiss) // any other error says nothing
		switch now := time.Now(); {
		case free && now.Sub(before) < ttl:
			t.Errorf("a lock for %v is free after %v", ttl, now.Sub(before))
			return
		case free:
			return
		case asked.Sub(after) > ttl+b.guarantees.MaxLate+time.Second: // the server may read its clock late
			t.Errorf("a lock for %v is held after %v", ttl, asked.Sub(after))
			return
		}
	}
}
