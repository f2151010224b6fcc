package exchange_test

import (
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A worker that is resumed just as its idle time ends still sends its requests. Workers without requests end.
func TestIdleWorkers(t *testing.T) {
	t.Parallel()
	l, workers := batcherTo(t, servers.Redis(t).Addr)
	for i := range 100 {
		var callers sync.WaitGroup
		for range exchange.UsualWorkers {
			callers.Go(func() {
				if err := set(t.Context(), l, "k"); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		time.Sleep(exchange.IdleTime + time.Duration(i-50)*10*time.Microsecond) // sleeps: until a worker is about to end
	}
	const soon = 20 * time.Second
	for begun := time.Now(); ; time.Sleep(exchange.IdleTime) {
		n := workers()
		if n == 0 {
			return
		}
		if time.Since(begun) > soon {
			t.Fatalf("%d workers, long after the last request", n)
		}
	}
}
