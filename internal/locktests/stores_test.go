package locktests

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
)

// open opens a store. If its server does not respond in time, because the machine is busy, open tries again.
func open(t *testing.T, url string, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.Open(t.Context(), url, opts...)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, lock.ErrUnavailable) && time.Now().Before(end); {
		l, err = lock.Open(t.Context(), url, opts...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Many leases of one process, 10 000 if the store can hold them, do not need a goroutine each, and none is lost over
// three TTLs.
func TestManyLeasesOnStores(t *testing.T) {
	if testing.Short() {
		t.Skip("holds leases for half a minute")
	}
	onStores(t, func(t *testing.T, s sharedStore) {
		t.Parallel()
		const ttl = 10 * time.Second
		n := s.many
		url, _ := s.start(t)
		l := open(t, url, lock.WithTTL(ttl), lock.WithPrefix(t.Name()))
		leases := make([]*lock.Lease, n)
		inParallel(n, func(i int) {
			lease, err := l.Acquire(t.Context(), strconv.Itoa(i))
			if err != nil {
				t.Error(err)
				return
			}
			leases[i] = lease
		})
		if t.Failed() {
			return
		}
		most := 0
		for end := time.Now().Add(3 * ttl); time.Now().Before(end); time.Sleep(ttl / 40) { // only the interval of the samples
			most = max(most, runtime.NumGoroutine())
		}
		gone := 0
		for _, lease := range leases {
			if lease.Err() != nil {
				gone++
			}
		}
		if gone > 0 {
			t.Errorf("%d of %d leases lost", gone, n)
		}
		const enough = 1000 // for the workers of all stores, which acquire and release at about the same time
		if most > enough {
			t.Errorf("%d goroutines for %d leases", most, n)
		}
		t.Logf("at most %d goroutines while holding %d leases", most, n)
		inParallel(n, func(i int) {
			if err := leases[i].Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	})
}

func inParallel(n int, f func(i int)) {
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	const workers = 64
	for range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

// Goroutines of two Lockers increment a plain variable under one key. Tokens increase from holder to holder.
func TestCounterOnStores(t *testing.T) {
	onStores(t, func(t *testing.T, s sharedStore) {
		url, _ := s.start(t)
		lockers := []*lock.Locker{
			open(t, url, lock.WithPrefix(t.Name())),
			open(t, url, lock.WithPrefix(t.Name()), lock.WithHandoff(3)),
		}
		const workers, rounds = 16, 25
		var (
			wg      sync.WaitGroup
			counter int // guarded by the lock alone; the race detector may report a violation
			token   uint64
		)
		for w := range workers {
			wg.Go(func() {
				for range rounds {
					err := lockers[w%2].Do(t.Context(), "counter", func(_ context.Context, l *lock.Lease) error {
						counter++
						if l.Token() <= token {
							t.Errorf("token %d after %d", l.Token(), token)
						}
						token = l.Token()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if counter != workers*rounds {
			t.Errorf("counted to %d, want %d", counter, workers*rounds)
		}
	})
}

// If a store stops responding, the holder's context ends at the deadline, with ErrLost as its cause. When the store
// responds again, the key is free, and the next token is greater.
func TestFrozenStores(t *testing.T) {
	onStores(t, func(t *testing.T, s sharedStore) {
		url, nodes := s.start(t)
		if len(nodes) == 0 {
			t.Skip("there is no server that could be frozen")
		}
		t.Parallel()
		l := open(t, url, lock.WithTTL(3*time.Second))
		g := l.Guarantees()
		ttl := g.Round(3 * time.Second)
		lease, err := l.Acquire(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			n.Freeze()
		}
		select {
		case <-lease.Context(t.Context()).Done():
		case <-time.After(ttl + 5*time.Second):
			t.Errorf("not lost %v after the deadline", time.Since(lease.Deadline()))
		}
		if cause := context.Cause(lease.Context(t.Context())); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("the context ended for %v, want ErrLost", cause)
		}
		for _, n := range nodes {
			n.Thaw()
		}
		_ = lease.Release(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var next *lock.Lease
		for {
			if next, err = l.Acquire(ctx, "key"); err == nil || ctx.Err() != nil {
				break // attempts fail until connections are open again
			}
		}
		if err != nil {
			t.Fatalf("after the store went on: %v", err)
		}
		if next.Token() <= lease.Token() {
			t.Errorf("token %d after %d", next.Token(), lease.Token())
		}
		release(t, next)
	})
}

// Opening a store that is weaker than required fails, with an error that names everything that is missing.
func TestWeakStoresAreRefused(t *testing.T) {
	url, _ := servers.Store(t, "memcached")
	_, err := lock.Open(t.Context(), url,
		lock.Require(lock.Need{Linearizable: true, NoEarlyLoss: true, FIFO: true, Push: true,
			Reach: lock.ReachNetwork}))
	if !errors.Is(err, lock.ErrUnsupported) {
		t.Fatalf("%v, want ErrUnsupported", err)
	}
	for _, part := range []string{
		"memcached", "linearizable is required, but", "no-early-loss is required, but a live lease may be dropped: eviction",
		"fifo is required, but", "push is required, but waiters poll",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "reach") {
		t.Errorf("%q complains of what is there", err)
	}
}
