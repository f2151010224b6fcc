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

// A reading is what the server says to "stats" and "stats settings".
type reading map[string]string

func (r reading) number(name string) int64 {
	n, _ := strconv.ParseInt(r[name], 10, 64)
	return n
}

// time is the second that the server's clock shows.
func (r reading) time() time.Time { return time.Unix(r.number("time"), 0) }

// clockWindow is the time around the server's clock, half of it before and half of it after, in which a client's counts as it is.
const clockWindow = 10 * time.Second

// within is now, moved by whole clockWindows into the one around the server's clock. It is now if that clock is not there, or was never set.
func (r reading) within(now time.Time) time.Time {
	server := r.time()
	if server.Unix() <= mostRelative {
		return now
	}
	// It may be a second ahead, as it adds the seconds that have begun since its start to the one in which it started; or a second and
	// serverLag behind.
	middle := server.Add(serverLag * time.Second / 2)
	return now.Add(-now.Sub(middle).Round(clockWindow))
}

var errNoStats = errors.New("the server reports no statistics")

// stats asks for the statistics, which the library has no request for, on the connection that has answered the request before.
func (l *lane) stats() (reading, error) {
	if _, err := l.conn.Write([]byte("stats\r\nstats settings\r\n")); err != nil {
		return nil, err
	}
	r := make(reading)
	lines, answers, refusal := bufio.NewScanner(l.conn), 0, ""
	for answers < 2 && lines.Scan() {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "STAT "), " ")
		switch {
		case lines.Text() == "END":
			answers++
		case !strings.HasPrefix(lines.Text(), "STAT "):
			answers++
			refusal = lines.Text()
		case answers == 1 && name == "evictions": // a setting, which has the name of a counter
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
