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

	maxTTL = (mostRelative - serverLag) * time.Second
)

// round returns what is granted for a TTL that is asked for.
func (b *Backend) round(ttl time.Duration) (time.Duration, error) {
	if ttl > maxTTL {
		return 0, fmt.Errorf("%w: ttl %v is longer than %v", backend.ErrInvalid, ttl, maxTTL)
	}
	return b.guarantees.Round(ttl), nil
}

// expiration returns what to send for a TTL in whole seconds, as a time from now.
func expiration(ttl time.Duration) int32 {
	return int32((ttl+time.Second-1)/time.Second) + serverLag
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
