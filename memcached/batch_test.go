package memcached

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// A batch whose requests meet a pause of the server is renewed again: the swaps that follow the slow one are served by the
// server's clock of before, too.
func TestBatchMeetsPause(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	const leases = 2
	list := holdBatch(t, b, leases)
	for _, paused := range []string{"gets", "cas"} {
		var once sync.Once
		p.set(func(verb string) action {
			if verb == paused {
				once.Do(func() { time.Sleep(slow + 100*time.Millisecond) }) // the pause
			}
			return pass
		})
		p.count()
		for i, err := range b.RenewBatch(context.Background(), list) {
			if err != nil {
				t.Errorf("lease %d: %v", i, err)
			}
		}
		if counts, _ := p.count(); counts["cas"] < 2*leases {
			t.Errorf("a pause at %s: %d leases were swapped by %v", paused, leases, counts)
		}
	}
}

// holdBatch acquires n leases, to be renewed by one request that reads.
func holdBatch(t *testing.T, b *Backend, n int) (list []backend.Renewal) {
	t.Helper()
	for i := range n {
		list = append(list, backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint("k", i), time.Minute)), TTL: time.Hour})
	}
	return list
}
