package memcached

import (
	"context"
	"errors"
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

// A server that refuses one swap of a batch has its connection closed by the client library. The numbers that were read on it
// are not used on another one, and the other leases are renewed all the same.
func TestBatchAfterRefusedSwap(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	list := holdBatch(t, b, 3)
	reads := make(map[int]int) // by connection
	p.mu.Lock()
	p.trace = func(conn int, verb, name string) {
		switch {
		case verb == "gets":
			reads[conn]++
		case verb == "cas" && reads[conn] == 0:
			t.Errorf("connection %d: cas of %s, which was read on another", conn, name)
		}
	}
	p.mu.Unlock()
	p.once("cas", full)
	errs := b.RenewBatch(context.Background(), list)
	if !errors.Is(errs[0], ErrOutOfMemory) || errs[1] != nil || errs[2] != nil {
		t.Errorf("%v, want ErrOutOfMemory for the first alone", errs)
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
