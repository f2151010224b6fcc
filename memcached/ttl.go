package memcached

import (
	"fmt"
	"time"

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
