package memcached

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/internal/servers"
)

// The server looks at its clock about once a second, each time a little later in the second, and when that slips past
// the end of one, it skips it: a lock that was stored shortly before lives a second shorter than at other times. The
// test stops the server for moments, so that it skips a second, and stores a lock just before.
func TestSkippedSecondOfServer(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr)
	const ttl = time.Second
	for round := range 2 {
		tick := nextTick(t, s.Addr)
		// Its look at the clock is late in the second from now on.
		time.Sleep(300 * time.Millisecond) // sleeps: a part of the second must pass
		s.Freeze()
		sleepUntil(nextFraction(tick+1100*time.Millisecond, 940*time.Millisecond))
		s.Thaw()
		tick = nextTick(t, s.Addr) // the one after
		second := tick.Truncate(time.Second)
		if late := tick - second; late < 900*time.Millisecond {
			t.Logf("round %d: the server was not to be tuned (%v)", round, late)
			continue
		}
		sleepUntil(second + 1800*time.Millisecond)
		key := fmt.Sprint("k", round)
		before := time.Now()
		acquire(t, b, req(key, ttl))
		after := time.Now()
		s.Freeze() // over the end of the second, and the look at the clock
		sleepUntil(second + 2020*time.Millisecond)
		s.Thaw()
		freeAfter(t, s.Addr, b, key, before, after, ttl)
	}
}

// nextTick waits until the server has looked at its clock, and returns when that was.
func nextTick(t *testing.T, addr string) time.Duration {
	t.Helper()
	ask := func() string {
		stats, err := servers.MemcachedStats(context.Background(), addr)
		if err != nil {
			t.Fatal(err)
		}
		return stats["time"]
	}
	for first := ask(); ask() == first; time.Sleep(500 * time.Microsecond) {
	}
	return monotonic()
}

// monotonic is the server's clock: seconds since this machine's start.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// nextFraction is the first instant after at that is so far into its second.
func nextFraction(at, fraction time.Duration) time.Duration {
	next := at.Truncate(time.Second) + fraction
	if next < at {
		next += time.Second
	}
	return next
}

func sleepUntil(at time.Duration) { time.Sleep(at - monotonic()) } // sleeps: until an instant of the server's clock
