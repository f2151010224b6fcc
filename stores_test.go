package lock_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/servers"
	_ "github.com/anylock/lock/redis"
)

// onStores runs f on every store that other processes can share, through its URL.
func onStores(t *testing.T, f func(t *testing.T, url string)) {
	for _, store := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"file", func(t *testing.T) string { return "file://" + t.TempDir() }},
		{"redis", func(t *testing.T) string { return servers.RedisURL(t) }},
	} {
		t.Run(store.name, func(t *testing.T) { f(t, store.url(t)) })
	}
}

func open(t *testing.T, url string, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.Open(t.Context(), url, opts...)
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

// Ten thousand leases in one process cost no goroutine and no connection each, and none is lost over three TTLs.
func TestManyLeasesOnStores(t *testing.T) {
	if testing.Short() {
		t.Skip("holds leases for half a minute")
	}
	onStores(t, func(t *testing.T, url string) {
		t.Parallel()
		const (
			n   = 10_000
			ttl = 10 * time.Second
		)
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
		for end := time.Now().Add(3 * ttl); time.Now().Before(end); time.Sleep(ttl / 40) { // not for synchronisation
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
		const enough = 200 // for this test's workers and those of the others that run beside it
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

// Goroutines of two Lockers increment a plain variable under one key; tokens rise from holder to holder.
func TestCounterOnStores(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		lockers := []*lock.Locker{
			open(t, url, lock.WithPrefix(t.Name())),
			open(t, url, lock.WithPrefix(t.Name()), lock.WithHandoff(3)),
		}
		const workers, rounds = 16, 25
		var (
			wg      sync.WaitGroup
			counter int // guarded by the lock alone: the race detector is the judge
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
