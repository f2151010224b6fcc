package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// OutlivesSilence tests a store whose one connection to its server goes through p. The server is silent while requests
// wait for a connection that is being opened. That attempt must end, too: otherwise it occupies the only place for a
// connection for as long as the silent connection lives.
func OutlivesSilence(t *testing.T, b backend.Backend, p *Proxy) {
	t.Helper()
	Release(t, Acquire(t, b, Try("k", time.Minute)))
	p.Set(func(p *Proxy) { p.Silent = true })
	var requests sync.WaitGroup
	for range 4 { // each later one waits when the connection of an earlier one is closed
		requests.Go(func() {
			if _, err := b.Acquire(t.Context(), Try("k", time.Minute)); !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("a silent server: %v, want ErrUnavailable", err)
			}
		})
		time.Sleep(300 * time.Millisecond) // sleeps: between the requests
	}
	requests.Wait()
	p.Set(func(p *Proxy) { p.Silent = false })
	Until(t, time.Minute, "the server is used again", func() bool {
		_, err := b.Inspect(t.Context(), "k")
		return err == nil
	})
}
