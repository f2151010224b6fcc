package memcached

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// If the counter is behind the tokens that a client has drawn, only one of its concurrent requests raises the counter.
// If each added the difference, the counter would run far ahead, and further ahead each time it is lost.
func TestCounterIsRaisedOnce(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	if _, err := opened(t, "memcached://"+s.Addr).Acquire(t.Context(),
		waiting("begins the counter", time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := opened(t, "memcached://"+s.Addr)
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	b.raiseMaxToken(ahead)
	const requests = 64
	if over := drawn(t, ahead, slices.Repeat([]*Backend{b}, requests)); over > 3*requests {
		t.Errorf("%d requests have raised the counter by %d beyond what was seen", requests, over)
	}
}

// drawn draws a token from each store at once. It returns by how much the greatest token exceeds seen.
func drawn(t *testing.T, seen uint64, stores []*Backend) (over uint64) {
	t.Helper()
	tokens := make([]uint64, len(stores))
	var all sync.WaitGroup
	for i, b := range stores {
		all.Go(func() {
			l, err := b.Acquire(context.Background(), waiting(fmt.Sprint("k", i), time.Minute))
			if err != nil {
				t.Error(err)
				return
			}
			if tokens[i] = l.Token(); tokens[i] <= seen {
				t.Errorf("token %d, and %d was seen", tokens[i], seen)
			}
		})
	}
	all.Wait()
	return slices.Max(tokens) - seen
}

// If several clients find the counter behind at once, only one of them raises it. Otherwise, after another loss, other
// clients would start the counter below the tokens of these clients.
func TestCounterIsRaisedByOneClient(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	release(t, acquire(t, opened(t, "memcached://"+s.Addr), req("begins the counter", time.Minute)))
	const clients = 8
	ahead := uint64(time.Now().Add(time.Minute).UnixMicro())
	var arrived sync.WaitGroup
	arrived.Add(clients)
	stores := make([]*Backend, clients)
	for i := range stores {
		p := newProxy(t, s.Addr)
		stores[i] = opened(t, "memcached://"+p.Addr+patient)
		stores[i].raiseMaxToken(ahead)
		var together sync.Once
		p.set(func(verb string) action {
			if verb == "cas" {
				together.Do(func() { arrived.Done(); arrived.Wait() })
			}
			return pass
		})
	}
	if over := drawn(t, ahead, stores); over > 3*clients {
		t.Errorf("%d clients have raised the counter by %v beyond what was seen", clients,
			time.Duration(over)*time.Microsecond)
	}
}

// Tokens of a key increase in the order of its grants, with many clients at once, while the counter is dropped again
// and again.
func TestTokensRiseWhileTheCounterIsDropped(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	stores := []*Backend{opened(t, "memcached://"+s.Addr), opened(t, "memcached://"+s.Addr),
		opened(t, "memcached://"+s.Addr)}
	c := raw(t, s.Addr)
	var wg sync.WaitGroup
	var stop atomic.Bool
	drops := 0
	wg.Go(func() {
		for !stop.Load() {
			if c.Delete(counterName) == nil {
				drops++
			}
		}
	})
	var workers sync.WaitGroup
	var last, grants uint64 // guarded by the lock itself
	for i := range 9 {
		workers.Go(func() {
			for range 40 {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				l, err := stores[i%3].Acquire(ctx, waiting("k", time.Minute))
				cancel()
				if err != nil && errors.Is(err, errContended) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if token := l.Token(); token <= atomic.LoadUint64(&last) {
					t.Errorf("token %d after %d", token, last)
				}
				atomic.StoreUint64(&last, l.Token())
				atomic.AddUint64(&grants, 1)
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	stop.Store(true)
	wg.Wait()
	if drops < 10 || grants < 100 {
		t.Errorf("the counter was dropped %d times in %d grants: the test proves nothing", drops, grants)
	}
	t.Logf("the counter was dropped %d times in %d grants", drops, grants)
}

// If the counter is dropped between the requests that create and increment it, it is created again.
func TestCounterDroppedInBetween(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr)
	c := raw(t, s.Addr)
	first := acquire(t, b, req("k1", time.Minute))
	var step atomic.Int32
	if err := c.Delete(counterName); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.trace = func(_ int, verb, name string) {
		if name != counterName {
			return
		}
		switch step.Add(1) {
		case 2: // this client is about to create it, but another is faster
			if verb != "add" {
				t.Errorf("%s of a missing counter", verb)
			}
			if err := c.Add(&memcache.Item{Key: name, Value: []byte("7")}); err != nil { // by a slow clock
				t.Error(err)
			}
		case 3: // this client is about to increment it, but it is dropped again
			if err := c.Delete(name); err != nil {
				t.Error(err)
			}
		}
	}
	p.mu.Unlock()
	l := acquire(t, b, req("k", time.Minute))
	if l.Token() <= first.Token() || step.Load() < 4 {
		t.Errorf("token %d after %d, in %d steps", l.Token(), first.Token(), step.Load())
	}
}

// A counter that is behind the tokens that this client has drawn is raised.
func TestCounterOfASlowClock(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr)
	first := acquire(t, b, req("k", time.Minute))
	release(t, first)
	if err := raw(t, s.Addr).Set(&memcache.Item{Key: counterName, Value: []byte("41")}); err != nil {
		t.Fatal(err)
	}
	second := acquire(t, b, req("k", time.Minute))
	third := acquire(t, opened(t, "memcached://"+s.Addr), req("k2", time.Minute))
	if second.Token() <= first.Token() || third.Token() <= second.Token() {
		t.Errorf("tokens %d, %d, %d", first.Token(), second.Token(), third.Token())
	}
	// If the clock of a client steps back, its tokens still increase, because it remembers its greatest token.
	b.now = func() time.Time { return time.Now().Add(-time.Hour) }
	if err := raw(t, s.Addr).Delete(counterName); err != nil {
		t.Fatal(err)
	}
	if fourth := acquire(t, b, req("k3", time.Minute)); fourth.Token() <= second.Token() {
		t.Errorf("token %d after %d", fourth.Token(), second.Token())
	}
}

// The counter starts within a few seconds of the time, however wrong the clock of a client is, because the server
// limits it.
func TestCounterBeginsByTheServersClock(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+patient)
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour, 10000 * 24 * time.Hour, -20000 * 24 * time.Hour} {
		b.now = func() time.Time { return time.Now().Add(skew) }
		b.maxToken.Store(0)
		if err := raw(t, s.Addr).Delete(counterName); err != nil {
			t.Fatal(err)
		}
		l := acquire(t, b, req("k", time.Minute))
		off := time.Until(time.UnixMicro(int64(l.Token())))
		const most = clockWindow/2 + (serverLag+1)*time.Second
		if off > most || off < -most {
			t.Errorf("by a clock that is %v off the counter begins %v off", skew, off)
		}
		release(t, l)
	}
}

// The server's clock may be ahead of the clocks of all clients. Counters still start by the clients' clocks, which
// agree, so tokens increase.
func TestCounterBeginsByClocksBehindTheServers(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	stores := []*Backend{opened(t, "memcached://"+s.Addr), opened(t, "memcached://"+s.Addr)}
	c := raw(t, s.Addr)
	// The server counts whole seconds. When a second begins, however late the server notices, the server's clock is known.
	next := time.Now()
	first := serverTime(t, stores[0])
	var asked, second time.Time
	for !second.After(first) {
		asked, next = next, time.Now() // sent before the last reply with the first second
		second = serverTime(t, stores[0])
	}
	behind := second.Add(-900 * time.Millisecond).Sub(asked)
	var last uint64
	for i := range 6 {
		b := stores[i%2]
		b.now = func() time.Time { return time.Now().Add(behind) }
		b.maxToken.Store(0) // like a client that has drawn no token
		if err := c.Delete(counterName); err != nil {
			t.Fatal(err)
		}
		l := acquire(t, b, req("k", time.Minute))
		if l.Token() <= last {
			t.Errorf("token %d after %d", l.Token(), last)
		}
		last = l.Token()
		release(t, l)
	}
}

// If no token can be drawn for a lock, Acquire fails and removes the lock.
func TestNoToken(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr)
	c := raw(t, s.Addr)
	for value, hint := range map[string]string{"not a number": "numeric", "72057594037927936": "not a time"} {
		if err := c.Set(&memcache.Item{Key: counterName, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
		l, err := b.Acquire(context.Background(), req("k", time.Minute))
		if l != nil || err == nil || !strings.Contains(err.Error(), hint) {
			t.Fatalf("acquire with the counter at %q: %v, %v", value, l, err)
		}
		until(t, soon, "the key is free again", func() bool {
			h, err := b.Inspect(context.Background(), "k")
			return err == nil && !h.Held()
		})
	}
}

// If the server drops a lock before a late token is drawn, Acquire fails, because another owner may have drawn a lower
// token since.
func TestSlowTokenIsLookedAfter(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b, other := opened(t, "memcached://"+p.Addr+patient), opened(t, "memcached://"+s.Addr)
	release(t, acquire(t, b, req("k", time.Minute)))
	var next backend.Lease
	var once sync.Once
	p.set(func(verb string) action {
		if verb == "incr" {
			once.Do(func() {
				if err := evict(s.Addr, "k"); err != nil {
					t.Error(err)
				}
				next = acquire(t, other, req("k", time.Minute))
				time.Sleep(slowToken) // sleeps: a process that pauses
			})
		}
		return pass
	})
	if l, err := b.Acquire(context.Background(), req("k", time.Minute)); !errors.Is(err, backend.ErrLost) {
		t.Errorf("acquire: %v, %v, want ErrLost", l, err)
	}
	if err := next.Renew(context.Background(), time.Minute); err != nil {
		t.Error(err)
	}
	release(t, next)
}
