package memcached

import "time"

const (
	// expireNow, as an expiration, removes an item at once.
	expireNow = -1

	// maxRelative is the longest expiration, in seconds, that counts from now. memcached reads longer ones as dates.
	maxRelative = 30 * 24 * 60 * 60

	// serverLag is how many seconds the server's clock may be behind when it adds a TTL. The server counts whole seconds
	// and reads the time about once a second, each time a little later in the second. The lag is usually one second. Every
	// few minutes it is two, when a read slips past the end of a second and skips that second.
	serverLag = 2

	maxTTL = (maxRelative - serverLag) * time.Second
)

// expiration returns the expiration to send for a TTL, in seconds from now.
func expiration(ttl time.Duration) int32 {
	return int32((ttl+time.Second-1)/time.Second) + serverLag
}
