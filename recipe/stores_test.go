//go:build linux

package recipe_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// Processes get permits in order of arrival on every store that is FIFO.
func TestSemaphoreFIFOOnStores(t *testing.T) {
	fifo := make(map[string]bool)
	for _, d := range driver.Registered() {
		fifo[d.Name] = d.Guarantees.FIFO
	}
	for _, name := range servers.SharedStores {
		if !fifo[name] {
			continue // any waiter may be next
		}
		t.Run(name, func(t *testing.T) {
			storetest.Long(t, "a semaphore on every store")
			t.Parallel()
			url, _ := servers.Store(t, name)
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
					h, err := first.Ops().Inspect(t.Context(), "mail/queue")
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

// Readers and writers exclude each other, and their tokens pass a fence, on every store. Redlock and memcached have no
// shared leases of their own.
func TestRWOnStores(t *testing.T) {
	for _, name := range servers.SharedStores {
		t.Run(name, func(t *testing.T) {
			if name != "memcached" {
				storetest.Long(t, "readers and writers on every store")
			}
			t.Parallel()
			url, _ := servers.Store(t, name)
			const n, processes, rounds = 3, 4, 4
			log := &rwLog{limit: n}
			var wg sync.WaitGroup
			for i := range processes {
				l, err := lock.Open(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				rw := readersWriters(t, l, n)
				for _, acquire := range slices.Repeat([]acquireRW{rw.AcquireShared, rw.AcquireShared, rw.Acquire}, 1+i%2) {
					wg.Go(func() {
						for range rounds {
							lease, err := acquire(t.Context())
							if err != nil {
								t.Error(err)
								return
							}
							log.enter(t, lease)
							time.Sleep(time.Millisecond) // sleeps: work
							log.leave(lease)
							release(t, lease)
						}
					})
				}
			}
			start := time.Now()
			wg.Wait()
			t.Logf("%d reads and %d writes in %v, %d readers at once at most", log.reads, log.writes,
				time.Since(start), log.mostReaders)
			free, err := lock.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer free.Close()
			for _, key := range rwKeys(n) {
				lease, err := free.TryAcquire(t.Context(), key)
				if err != nil {
					t.Errorf("%s is not free: %v", key, err)
					continue
				}
				release(t, lease)
			}
		})
	}
}
