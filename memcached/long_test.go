package memcached

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

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

func TestBoundary(t *testing.T) {
	t.Parallel()
	for _, last := range []int64{firstDate, firstDate + 1, 1e6 * 3, 1e9, 1.7e9, 1.8e9, lastDate - 2, lastDate - 1} {
		for _, guess := range []int64{firstDate + 2, 1e9, 1.7e9, last, last + 1, last - 1, last + 1000, lastDate - 2} {
			guess = min(max(guess, firstDate+2), lastDate-2)
			asked := 0
			got, err := boundary(guess-2, guess+2, func(date int64) (bool, error) {
				if asked++; date < firstDate || date > lastDate {
					t.Errorf("asked for %d", date)
				}
				return date <= last, nil
			})
			if got != last || err != nil || asked > 70 {
				t.Errorf("%d from a guess of %d: %d, %v, asked %d times", last, guess, got, err, asked)
			}
		}
	}
	for _, always := range []bool{true, false} {
		if _, err := boundary(1e9, 1e9+4, func(int64) (bool, error) { return always, nil }); !errors.Is(err, errAbsurdClock) {
			t.Errorf("%v", err)
		}
	}
}

// A server that did not run for some seconds serves what has arrived by its clock of before. Leases that it grants or
// renews so do not end early all the same.
func TestPausedServer(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+patient)
	const n, ttl = 12, 4 * time.Second
	renewed := make([]backend.Lease, n)
	for i := range renewed {
		renewed[i] = acquire(t, b, req(fmt.Sprint("r", i), time.Minute))
	}
	s.Freeze()
	time.Sleep(3 * time.Second) // longer than what the server's clock is allowed to be behind
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
	time.Sleep(time.Second) // all have been sent
	s.Thaw()
	wg.Wait()
}

// An item with a date that has passed is gone at once: what serverTime relies on.
func TestPastDate(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	c := raw(t, s.Addr)
	b := opened(t, "memcached://"+s.Addr)
	before := time.Now().Unix()
	now, err := b.serverTime(c)
	if err != nil {
		t.Fatal(err)
	}
	// It counts whole seconds from a whole second.
	if after := time.Now().Unix(); now < before-serverLag || now > after+1 {
		t.Errorf("the server's time is %d, ours was %d to %d", now, before, after)
	}
	for offset, kept := range map[int64]bool{-10: false, 10: true} {
		if err := c.Set(&memcache.Item{Key: "x", Expiration: int32(now + offset)}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get("x"); (err == nil) != kept {
			t.Errorf("an item whose date is %ds away: %v", offset, err)
		}
	}
}
