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

// A batch whose requests meet a pause of the server is renewed again: the swaps that follow the slow answer are served by
// the server's clock of before, too.
func TestBatchMeetsPause(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	const leases = 2
	list := holdBatch(t, b, leases)
	for _, paused := range []string{"gets", "cas"} {
		var once sync.Once
		var resumed time.Time
		swapped := make(map[string]time.Time) // last
		p.mu.Lock()
		p.trace = func(_ int, verb, name string) {
			if verb == "cas" {
				swapped[name] = time.Now()
			}
		}
		p.mu.Unlock()
		p.set(func(verb string) action {
			if verb == paused {
				once.Do(func() {
					time.Sleep(slow + 100*time.Millisecond) // sleeps: the pause
					resumed = time.Now()
				})
			}
			return pass
		})
		for i, err := range b.RenewBatch(context.Background(), list) {
			if err != nil {
				t.Errorf("lease %d: %v", i, err)
			}
		}
		p.mu.Lock()
		if len(swapped) != leases {
			t.Errorf("a pause at %s: %d of %d leases were swapped", paused, len(swapped), leases)
		}
		for name, at := range swapped {
			if after := at.Sub(resumed); after < settle {
				t.Errorf("a pause at %s: %s was swapped last %v after it", paused, name, after)
			}
		}
		p.mu.Unlock()
	}
}

// One answer that is late, on a network whose answers nearly are, costs a batch one request and a pause.
func TestBatchOnSlowNetwork(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	const leases = 8
	list := holdBatch(t, b, leases)
	p.beFar(140 * time.Millisecond)
	p.count()
	b.lanes.drop()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second) // it takes 1.6 s
	defer cancel()
	for i, err := range b.RenewBatch(ctx, list) {
		if err != nil {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	if counts, sum := p.count(); sum >= 2*leases {
		t.Errorf("%d leases cost %d requests (%v)", leases, sum, counts)
	}
}

// A batch that takes longer than a step may has renewed some leases when its time is up, and says so: when the others are
// renewed again, it is their turn.
func TestBatchLongerThanTimeout(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+"?timeout=1s")
	const leases = 8
	list := holdBatch(t, b, leases)
	p.beFar(140 * time.Millisecond)
	for range leases {
		var failed []backend.Renewal
		for i, err := range b.RenewBatch(context.Background(), list) {
			if err != nil {
				failed = append(failed, list[i])
			}
		}
		if list = failed; len(list) == 0 {
			return
		}
	}
	t.Errorf("%d leases of %d are never renewed", len(list), leases)
}

// A server that refuses one swap of a batch has its connection closed by the client library. The numbers that were read on it
// are not used on another one, and the other leases are renewed all the same.
func TestBatchAfterRefusedSwap(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	list := holdBatch(t, b, prolongAttempts+2)
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
	for i, err := range errs {
		if errors.Is(err, ErrOutOfMemory) != (i == 0) || i > 0 && err != nil {
			t.Errorf("lease %d: %v, want ErrOutOfMemory for the first alone", i, err)
		}
	}
	p.set(func(verb string) action {
		if verb == "cas" {
			return full
		}
		return pass
	})
	for i, err := range b.RenewBatch(context.Background(), list) {
		if !errors.Is(err, ErrOutOfMemory) {
			t.Errorf("lease %d: %v, want ErrOutOfMemory for all", i, err)
		}
	}
}

// beFar delays each answer, and the first one of each connection twice.
func (p *proxy) beFar(delay time.Duration) {
	seen := make(map[int]bool)
	var fresh bool
	p.mu.Lock()
	p.trace = func(conn int, _, _ string) { fresh, seen[conn] = !seen[conn], true }
	p.mu.Unlock()
	p.set(func(string) action {
		p.mu.Lock()
		d := delay
		if fresh {
			d += delay
		}
		p.mu.Unlock()
		time.Sleep(d) // sleeps: a slow reply
		return pass
	})
}

// holdBatch acquires n leases, to be renewed by one request that reads.
func holdBatch(t *testing.T, b *Backend, n int) (list []backend.Renewal) {
	t.Helper()
	for i := range n {
		list = append(list, backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint("k", i), time.Minute)), TTL: time.Hour})
	}
	return list
}
