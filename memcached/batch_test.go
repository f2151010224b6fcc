package memcached

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// After its context ends, a batch sends no further requests: it returns once those in progress have ended, however many
// leases remain.
func TestBatchStopsWithItsContext(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+"?timeout=20s&max_idle_conns=1")
	const leases = 40
	list := holdBatch(t, b, leases)
	s.Freeze()
	defer s.Thaw()
	const limit = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	begun := time.Now()
	for i, err := range b.RenewBatch(ctx, list) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lease %d: %v, want DeadlineExceeded", i, err)
		}
	}
	if took, most := time.Since(begun), limit+leases*answerGrace/2; took > most {
		t.Errorf("the batch took %v, want at most %v", took, most)
	}
}

// On a slow network, a batch may renew only some leases before its context ends, and reports which. Repeating the batch
// for the others renews all of them in the end.
func TestBatchLongerThanItsContext(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient+"&max_idle_conns=2")
	const leases = 16
	list := holdBatch(t, b, leases)
	p.set(func(string) action {
		time.Sleep(50 * time.Millisecond) // sleeps: a slow reply
		return pass
	})
	for range leases {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		var failed []backend.Renewal
		for i, err := range b.RenewBatch(ctx, list) {
			if err != nil {
				failed = append(failed, list[i])
			}
		}
		cancel()
		if list = failed; len(list) == 0 {
			return
		}
	}
	t.Errorf("%d leases of %d were never renewed", len(list), leases)
}

// If the server refuses to store one item, only the renewal of that lease fails.
func TestBatchAfterRefusedSwap(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	list := holdBatch(t, b, 5)
	p.once("cas", full)
	failed := 0
	for i, err := range b.RenewBatch(context.Background(), list) {
		switch {
		case errors.Is(err, ErrOutOfMemory):
			failed++
		case err != nil:
			t.Errorf("lease %d: %v", i, err)
		}
	}
	if failed != 1 {
		t.Errorf("%d renewals were refused, want 1", failed)
	}
}

// holdBatch acquires n leases, and returns their renewals to an hour.
func holdBatch(t *testing.T, b *Backend, n int) (list []backend.Renewal) {
	t.Helper()
	for i := range n {
		l := acquire(t, b, req(fmt.Sprint("k", i), time.Minute))
		list = append(list, backend.Renewal{Lease: l, TTL: time.Hour})
	}
	return list
}
