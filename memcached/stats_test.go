package memcached

import (
	"bufio"
	"errors"
	"net"
	"testing"
	"time"
)

// What is no statistics, or has no time, is told as such: a counter must not begin by a clock that nobody has shown.
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
		r, err := (&lane{conn: ours}).stats()
		if ok && (err != nil || !r.time().Equal(time.Unix(1_700_000_000, 0))) || !ok && !errors.Is(err, errNoStats) {
			t.Errorf("%q: %v, %v", reply, r, err)
		}
		_, _ = ours.Close(), theirs.Close()
	}
}
