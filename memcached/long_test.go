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

// The longest TTL is sent as a time from now, and holds; one beyond it would be taken for a date, and is refused.
func TestLongestTTL(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+patient)
	holds := func(what string) {
		t.Helper()
		least := int(maxTTL / time.Second)
		if left := left(t, s.Addr, b.naming.lock("k")); left < least || left > least+serverLag {
			t.Errorf("%s for %v: %ds left", what, maxTTL, left)
		}
	}
	l := acquire(t, b, req("k", maxTTL))
	holds("acquire")
	long := []backend.Renewal{{Lease: l, TTL: maxTTL + 1}}
	for _, err := range []error{l.Renew(context.Background(), maxTTL+1), b.RenewBatch(context.Background(), long)[0]} {
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("renew for more: %v, want ErrInvalid", err)
		}
	}
	holds("a renewal that is refused")
	if err := l.Renew(context.Background(), time.Minute); err != nil {
		t.Fatal(err)
	}
	long[0].TTL = maxTTL
	if errs := b.RenewBatch(context.Background(), long); errs[0] != nil {
		t.Fatal(errs[0])
	}
	holds("batch renewal")
	release(t, l)
	if _, err := b.Acquire(context.Background(), req("k", maxTTL+1)); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("acquire for more: %v, want ErrInvalid", err)
	}
}

// A server that did not run for some seconds serves what has arrived by its clock of before. Leases that it grants or
// renews so do not end early all the same.
func TestPausedServer(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	const n, ttl = 12, 4 * time.Second
	renewed := make([]backend.Lease, n)
	for i := range renewed {
		renewed[i] = acquire(t, b, req(fmt.Sprint("r", i), time.Minute))
	}
	s.Freeze()
	time.Sleep(3 * time.Second) // sleeps: longer than the server's clock may be behind
	p.count()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			before := time.Now()
			if _, err := b.Acquire(context.Background(), req(fmt.Sprint("a", i), ttl)); err != nil {
				t.Error(err)
				return
			}
			freeAfter(t, s.Addr, b, fmt.Sprint("a", i), before, time.Now(), ttl)
		})
		wg.Go(func() {
			for {
				before := time.Now()
				err := renewed[i].Renew(context.Background(), ttl)
				if err == nil {
					freeAfter(t, s.Addr, b, fmt.Sprint("r", i), before, time.Now(), ttl)
					return
				}
				if errors.Is(err, backend.ErrLost) {
					t.Error(err)
					return
				}
			}
		})
	}
	sent := 0
	until(t, soon, "every call has sent a request", func() bool {
		_, more := p.count()
		sent += more
		return sent >= 2*n
	})
	time.Sleep(2 * slow) // sleeps: a request that is answered sooner is not repeated
	s.Thaw()
	wg.Wait()
}

// serverTime asks for the server's time.
func serverTime(t *testing.T, b *Backend) time.Time {
	t.Helper()
	r, _, err := ask(t.Context(), b, 0, func(c *lane, _ bool) (reading, error) {
		if err := c.Ping(); err != nil {
			return nil, err
		}
		return c.stats()
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.time()
}

// The server's clock counts whole seconds from a whole second.
func TestServerTime(t *testing.T) {
	t.Parallel()
	b := opened(t, "memcached://"+servers.Memcached(t).Addr)
	before := time.Now().Unix()
	now := serverTime(t, b).Unix()
	if after := time.Now().Unix(); now < before-serverLag || now > after+1 {
		t.Errorf("the server's time is %d, ours was %d to %d", now, before, after)
	}
}
