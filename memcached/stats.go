package memcached

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A reading contains the server's replies to "stats" and "stats settings".
type reading map[string]string

func (r reading) number(name string) int64 {
	n, _ := strconv.ParseInt(r[name], 10, 64)
	return n
}

// time returns the server's time, in whole seconds.
func (r reading) time() time.Time { return time.Unix(r.number("time"), 0) }

// clockWindow is the width of the interval around the server's time in which a client's time is used unchanged.
const clockWindow = 10 * time.Second

// nearServerTime returns now, moved by whole clockWindows into the interval around the server's time. It returns now if
// the server's time is missing or its clock was never set.
func (r reading) nearServerTime(now time.Time) time.Time {
	server := r.time()
	if server.Unix() <= maxRelative {
		return now
	}
	// The server's time may be up to a second ahead, because it adds the seconds begun since its start to the second of
	// its start. Or it may be up to a second and serverLag behind.
	middle := server.Add(serverLag * time.Second / 2)
	return now.Add(-now.Sub(middle).Round(clockWindow))
}

var errNoStats = errors.New("the server reports no statistics")

// stats requests the statistics, for which the library has no method. The connection must have replied to an earlier
// request: stats uses its network connection, which the first request opens.
func (c *connection) stats() (reading, error) {
	if _, err := c.conn.Write([]byte("stats\r\nstats settings\r\n")); err != nil {
		return nil, err
	}
	r := make(reading)
	lines, answers, refusal := bufio.NewScanner(c.conn), 0, ""
	for answers < 2 && lines.Scan() {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "STAT "), " ")
		switch {
		case lines.Text() == "END":
			answers++
		case !strings.HasPrefix(lines.Text(), "STAT "):
			answers++
			refusal = lines.Text()
		case answers == 1 && name == "evictions": // a setting with the same name as a counter
			r["evictions_allowed"] = value
		default:
			r[name] = value
		}
	}
	switch {
	case answers < 2:
		return nil, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
	case refusal != "" || r["time"] == "":
		return nil, fmt.Errorf("%w: %q", errNoStats, refusal)
	}
	return r, nil
}
