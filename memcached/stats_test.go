package memcached

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"
)

// Replies without statistics, or without the time, are errNoStats. The counter must not start at a time that the server
// has not reported.
func TestNoStatistics(t *testing.T) {
	t.Parallel()
	for reply, ok := range map[string]bool{
		"ERROR\r\nERROR\r\n":                                 false,
		"SERVER_ERROR no\r\nSTAT evictions on\r\nEND\r\n":    false,
		"STAT pid 1\r\nEND\r\nEND\r\n":                       false,
		"STAT time 1700000000\r\nEND\r\nSTAT x 1\r\nEND\r\n": true,
	} {
		ours, theirs := net.Pipe()
		go func() {
			requests := bufio.NewReader(theirs)
			for range 2 {
				_, _ = requests.ReadString('\n')
			}
			_, _ = theirs.Write([]byte(reply))
		}()
		r, err := (&connection{conn: ours}).stats()
		if ok && (err != nil || !r.time().Equal(time.Unix(1_700_000_000, 0))) || !ok && !errors.Is(err, errNoStats) {
			t.Errorf("%q: %v, %v", reply, r, err)
		}
		_, _ = ours.Close(), theirs.Close()
	}
}

// If the clients' clocks agree, they start counters in increasing order, although the server's clock is off. By the
// server's clock alone, two counters could start at the same second.
func TestClocksWithinAServersThatIsOff(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for range 200 {
		now = now.Add(37 * time.Millisecond)
		for off := -3; off <= 4; off++ { // the server counts whole seconds, and late
			server := strconv.FormatInt(now.Unix()-int64(off), 10)
			if got := (reading{"time": server}).nearServerTime(now); !got.Equal(now) {
				t.Errorf("by a server's clock that is %d s behind %v counts as %v", off, now.UTC(), got.UTC())
			}
		}
	}
	last := time.Time{}
	for range 200 { // the server's clock is an hour off
		now = now.Add(37 * time.Millisecond)
		got := reading{"time": strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)}.nearServerTime(now)
		if !got.After(last) {
			t.Errorf("%v after %v", got, last)
		}
		last = got
	}
}

// A server without a battery starts its clock in 1970, and again after a restart. Tokens from such a clock would
// decrease, so it does not count.
func TestClockThatWasNeverSet(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for server, want := range map[string]time.Time{
		"1700000100": now.Add(100 * time.Second), "1600000000": time.Unix(1_600_000_000, 0), "1699999999": now,
		"5": now, "": now, "yesterday": now,
	} {
		if got := (reading{"time": server}).nearServerTime(now); !got.Equal(want) {
			t.Errorf("by a server's clock of %q: %v, want %v", server, got, want)
		}
	}
	if got := reading(nil).nearServerTime(now); !got.Equal(now) {
		t.Errorf("without statistics: %v", got)
	}
}
