package memcached

import "time"

const (
	// expireNow, as an expiration, removes an item at once.
	expireNow = -1

	// maxRelative is the longest expiration, in seconds, that counts from now. memcached reads longer ones as dates.
	maxRelative = 30 * 24 * 60 * 60

	// serverLag is by how many seconds the server's clock may be behind when it adds a TTL. The server counts whole
	// seconds and reads the time about once a second, each time a little later in the second: the lag is one second, or
	// two when the read has just slipped past the end of a second and skipped it, which happens every few minutes.
	serverLag = 2

	maxTTL = (maxRelative - serverLag) * time.Second
)

// expiration returns the expiration to send for a TTL, in seconds from now.
func expiration(ttl time.Duration) int32 {
	return int32((ttl+time.Second-1)/time.Second) + serverLag
}
