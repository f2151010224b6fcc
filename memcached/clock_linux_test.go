package memcached

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/internal/servers"
)

// The server reads its clock about once a second, each time a little later in the second. When a read slips past the
// end of a second, the server skips that second, and a lock that was stored shortly before expires a second sooner. The
// test pauses the server so that it skips a second, and stores a lock just before. Even that lock must not expire
// early.
func TestSkippedSecondOfServer(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr)
	const ttl = time.Second
	for round := range 2 {
		tick := nextTick(t, s.Addr)
		// The pause makes the server read its clock late in each second from now on.
		time.Sleep(300 * time.Millisecond) // sleeps: a part of the second must pass
		s.Freeze()
		sleepUntil(nextFraction(tick+1100*time.Millisecond, 940*time.Millisecond))
		s.Thaw()
		tick = nextTick(t, s.Addr) // the next read of the clock
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
		s.Freeze() // past the end of the second, and the read of the clock
		sleepUntil(second + 2020*time.Millisecond)
		s.Thaw()
		freeAfter(t, s.Addr, b, key, before, after, ttl)
	}
}

// nextTick waits until the server has read its clock, and returns the time of that.
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

// monotonic returns the time since this machine's start, which is the server's clock.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// nextFraction returns the first time after at that is fraction into its second.
func nextFraction(at, fraction time.Duration) time.Duration {
	next := at.Truncate(time.Second) + fraction
	if next < at {
		next += time.Second
	}
	return next
}

func sleepUntil(at time.Duration) { time.Sleep(at - monotonic()) } // sleeps: until an instant of the server's clock
