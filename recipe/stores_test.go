//go:build linux

package recipe_test

import (
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// Processes get permits in the order in which they came, where the store promises that for one key.
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
