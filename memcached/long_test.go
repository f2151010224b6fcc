package memcached

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// A TTL beyond thirty days is a date by the server's clock, and holds whatever the client's clock says.
func TestLongTTL(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+patient)
	const day = 24 * time.Hour
	key := 0
	for _, skew := range []time.Duration{0, time.Second, -time.Second, 90 * time.Second, -3 * time.Hour, 40 * day, -400 * day} {
		b.now = func() time.Time { return time.Now().Add(skew) }
		for _, ttl := range []time.Duration{30*day - 3*time.Second, 30*day - 2*time.Second, 30 * day, 30*day + time.Second, 31 * day, 365 * day} {
			key++
			name := fmt.Sprint("k", key)
			holds := func(what string) {
				t.Helper()
				least := int(ttl / time.Second)
				most := least + int(b.guarantees.MaxLate/time.Second) + 1
				if left := left(t, s.Addr, b.naming.lock(name)); left < least || left > most {
					t.Errorf("%s for %v with a clock that is %v off: %ds left, want from %d to %d", what, ttl, skew, left, least, most)
				}
			}
			l := acquire(t, b, req(name, ttl))
			holds("acquire")
			isHeld(t, b, name)
			if err := l.Renew(context.Background(), time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := l.Renew(context.Background(), ttl); err != nil {
				t.Fatal(err)
			}
			holds("renew")
			if errs := b.RenewBatch(context.Background(), []backend.Renewal{{Lease: l, TTL: ttl}}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			holds("batch renewal")
			release(t, l)
		}
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

// Dates of the client library end in 2038.
func TestDatesEnd(t *testing.T) {
	t.Parallel()
	b := newBackend(nil, Options{})
	defer b.leases.Close()
	now := int64(math.MaxInt32) - 40*24*60*60
	if date, err := b.expiration(nil, 31*24*time.Hour, &now); err != nil || date <= 0 {
		t.Errorf("%d, %v", date, err)
	}
	if _, err := b.expiration(nil, 41*24*time.Hour, &now); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("a date after 2038: %v, want ErrUnsupported", err)
	}
}

// A waiter for a long TTL asks for the server's time when the key is free only.
func TestLongWaiterAsksSeldom(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr)
	l := acquire(t, b, req("k", time.Minute))
	p.count()
	got := make(chan error, 1)
	go func() {
		next, err := b.Acquire(context.Background(), waiting("k", 31*24*time.Hour))
		if err == nil {
			err = next.Release(context.Background())
		}
		got <- err
	}()
	time.Sleep(2 * time.Second) // the time that is measured
	if counts, _ := p.count(); counts["set"] > 5 || counts["gets"] > 60 {
		t.Errorf("a waiter sent %v in 2s", counts)
	}
	release(t, l)
	if err := <-got; err != nil {
		t.Error(err)
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
