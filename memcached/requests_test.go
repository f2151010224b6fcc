package memcached

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/servers"
)

// Without contention, an acquire (with its token), a renewal and a release take as many requests as the driver reports.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	d, err := driver.Lookup("memcached://h")
	if err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, b, req("warm", time.Minute))) // creates the counter
	p.count()
	measured := 0
	measure := func(what, promised string, f func()) {
		t.Helper()
		begun := time.Now()
		f()
		counts, sum := p.count()
		if took := time.Since(begun); took > slowToken {
			t.Logf("%s took %v, so another request may have checked it", what, took)
			return
		}
		measured++
		if strconv.Itoa(sum) != promised {
			t.Errorf("%s: %d requests (%v), the driver says %s", what, sum, counts, promised)
		}
	}
	ctx := context.Background()
	for i := range 20 {
		var l backend.Lease
		r := req(fmt.Sprint("k", i), time.Minute)
		r.Wait = i%2 == 1
		measure("acquire", d.RoundTrips.Acquire, func() { l = acquire(t, b, r) })
		measure("renew", d.RoundTrips.Renew, func() {
			if err := l.Renew(ctx, time.Minute); err != nil {
				t.Error(err)
			}
		})
		measure("release", d.RoundTrips.Release, func() { release(t, l) })
	}
	if measured == 0 {
		t.Error("nothing was measured")
	}
	p.mu.Lock()
	conns := p.last
	p.mu.Unlock()
	if conns != 1 {
		t.Errorf("%d connections for one request at a time", conns)
	}
}

// A waiter sends one request per poll, and polls seldom.
func TestWaiterAsksSeldom(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr)
	l := acquire(t, b, req("k", time.Minute))
	p.count()
	const waited = 3 * time.Second // the time that is measured
	ctx, cancel := context.WithTimeout(context.Background(), waited)
	defer cancel()
	if _, err := b.Acquire(ctx, waiting("k", time.Minute)); ctx.Err() == nil {
		t.Fatalf("acquire of a held key: %v", err)
	}
	counts, sum := p.count()
	// The pauses are random: half of all waiters send at most 25 requests, and one in 100 000 sends 86. If the pauses did
	// not grow, there would be about 600.
	const most = 150
	if counts["add"] == 0 || sum > most || counts["gets"] > 1 || counts["incr"] > 0 { // it reads the holder once
		t.Errorf("a waiter sent %v in %v", counts, waited)
	}
	t.Logf("%v in %v", counts, waited)
	release(t, l)
}
