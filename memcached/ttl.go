package memcached

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

const (
	// gone, as an expiration, removes an item at once.
	gone = -1

	// mostRelative is the longest expiration in seconds that memcached takes for a time from now; longer ones are dates.
	mostRelative = 30 * 24 * 60 * 60

	// serverLag is by how many seconds the server's clock may be behind when it counts a TTL. It counts whole seconds, and
	// looks at the time about once a second, each time a little later in the second: that makes one, and two when its look
	// has just slipped past the end of a second and skipped it, as it does every few minutes.
	serverLag = 2
)

// seconds returns what to send for a TTL in whole seconds, as a time from now.
func seconds(ttl time.Duration) int64 {
	return int64((ttl+time.Second-1)/time.Second) + serverLag
}

// isDate tells that a TTL is too long to be sent as a time from now.
func isDate(ttl time.Duration) bool { return seconds(ttl) > mostRelative }

// expiration returns what to send for a TTL. A long one has to be a date by the server's clock, which may differ from ours:
// so the server is asked for the time, once for all that share *now, which is 0 at first.
func (b *Backend) expiration(c *memcache.Client, ttl time.Duration, now *int64) (int32, error) {
	n := seconds(ttl)
	if n <= mostRelative {
		return int32(n), nil
	}
	if *now == 0 {
		var err error
		if *now, err = b.serverTime(c); err != nil {
			return 0, err
		}
	}
	if n += *now; n > math.MaxInt32 {
		return 0, fmt.Errorf("%w: the client library's dates end in January 2038, before this ttl of %v does", backend.ErrUnsupported, ttl)
	}
	return int32(n), nil
}

var errAbsurdClock = errors.New("the server's clock is not between February 1970 and January 2038")

// Dates that the client library and memcached take for dates.
const (
	firstDate = mostRelative + 1
	lastDate  = math.MaxInt32
)

// serverTime returns the second of the Unix epoch in which the server believes to be. The client library has no request
// for it, so it is found by halves: an item is gone at once if its date is not in the server's future. Two clocks that
// agree cost nine requests.
func (b *Backend) serverTime(c *memcache.Client) (int64, error) {
	name := b.naming.scratch(backend.NewOwner()[:32])
	defer func() { _ = c.Delete(name) }()
	past := func(date int64) (bool, error) {
		if err := c.Set(&memcache.Item{Key: name, Expiration: int32(date)}); err != nil {
			return false, err
		}
		_, err := c.Get(name)
		if errors.Is(err, memcache.ErrCacheMiss) {
			return true, nil
		}
		return false, err
	}
	const agree = 2 // how far apart clocks usually are at most
	guess := min(max(b.now().Unix(), firstDate+agree), lastDate-agree)
	return boundary(guess-agree, guess+agree, past)
}

// boundary returns the last date that is past, beginning with a guess between which two it is.
func boundary(low, high int64, past func(date int64) (bool, error)) (int64, error) {
	for step := int64(4); ; step *= 4 {
		if is, err := past(low); err != nil {
			return 0, err
		} else if is {
			break
		}
		if low == firstDate {
			return 0, errAbsurdClock
		}
		low, high = max(low-step, firstDate), low
	}
	for step := int64(4); ; step *= 4 {
		if is, err := past(high); err != nil {
			return 0, err
		} else if !is {
			break
		}
		if high == lastDate {
			return 0, errAbsurdClock
		}
		low, high = high, min(high+step, lastDate)
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		if is, err := past(middle); err != nil {
			return 0, err
		} else if is {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}
