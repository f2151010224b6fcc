package locktests

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// If a store stalls for longer than the TTL, its grant arrives too late, or there is no reply. The caller never had a
// lease, so the error is not ErrLost.
func TestAcquireOnFrozenStoreIsNotLost(t *testing.T) {
	onStores(t, func(t *testing.T, s sharedStore) {
		url, nodes := s.start(t)
		if len(nodes) == 0 {
			t.Skip("there is no server that could be frozen")
		}
		t.Parallel()
		l := open(t, url)
		ttl := l.Guarantees().Round(100 * time.Millisecond)
		for _, n := range nodes {
			n.Freeze()
		}
		errs := make(chan error)
		acquirers := []func() (*lock.Lease, error){
			func() (*lock.Lease, error) { return l.TryAcquire(t.Context(), "try", lock.WithTTL(ttl)) },
			func() (*lock.Lease, error) {
				return l.Acquire(t.Context(), "wait", lock.WithTTL(ttl), lock.WithWait(ttl+200*time.Millisecond))
			},
		}
		for _, acquire := range acquirers {
			go func() {
				_, err := acquire()
				errs <- err
			}()
		}
		time.Sleep(ttl + 300*time.Millisecond) // sleeps: how long the store is frozen
		for _, n := range nodes {
			n.Thaw()
		}
		for range acquirers {
			if err := <-errs; errors.Is(err, lock.ErrLost) || err != nil && !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("%v, want a lease or ErrUnavailable", err)
			}
		}
	})
}

func TestAcquireDuringRedisPauseIsUnavailable(t *testing.T) {
	s := servers.Redis(t)
	l := open(t, "redis://"+s.Addr)
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer c.Close()
	for _, mode := range []string{"ALL", "WRITE"} {
		if err := c.Do(t.Context(), "CLIENT", "PAUSE", 1500, mode).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := l.TryAcquire(t.Context(), "paused "+mode, lock.WithTTL(100*time.Millisecond))
		if errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", mode, err)
		}
	}
}

// A Redis server refuses every command while it loads its data. The error of Acquire is then ErrUnavailable, not
// ErrLost.
func TestAcquireDuringRedisLoadingIsUnavailable(t *testing.T) {
	s := servers.Redis(t)
	var loading atomic.Bool
	relay := storetest.NewRelay(t, "127.0.0.1:0", s.Addr, func(r *storetest.Relay, client, server net.Conn) {
		r.Go(func() { _, _ = io.Copy(client, server) })
		b := make([]byte, 64<<10)
		for {
			n, err := client.Read(b)
			if err != nil {
				return
			}
			if !loading.Load() {
				_, err = server.Write(b[:n])
			} else {
				_, err = io.WriteString(client, "-LOADING Redis is loading the dataset in memory\r\n")
			}
			if err != nil {
				return
			}
		}
	})
	l := open(t, "redis://"+relay.Addr)
	loading.Store(true)
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Minute} {
		time.AfterFunc(200*time.Millisecond, func() { loading.Store(false) })
		_, err := l.TryAcquire(t.Context(), "loading "+ttl.String(), lock.WithTTL(ttl))
		if errors.Is(err, lock.ErrLost) || err != nil && !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("TTL %v: %v, want a lease or ErrUnavailable", ttl, err)
		}
		loading.Store(true)
	}
	loading.Store(false)
}
