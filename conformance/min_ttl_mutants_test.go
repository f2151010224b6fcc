package conformance_test

import (
	"time"

	"github.com/anylock/lock/backend"
)

// minTTLMutants are bugs of leases with the shortest TTL.
var minTTLMutants = []mutant{
	{"short lease of a free key is lost", "FreeKeyIsNotLost"},
	{"wait for a free key for MinTTL is lost", "FreeKeyIsNotLost"},
	{"wait for MinTTL is kept for half of it", "TTLBelowMinTTLIsMinTTL"},
	{"wait for MinTTL is kept for a second", "TTLBelowMinTTLIsMinTTL"},
	{"wait of a reader for MinTTL is kept for half of it", "TTLBelowMinTTLIsMinTTL"},
	{"second renewal to MinTTL is not counted", "MinTTLIsKept"},
	{"lease of MinTTL ends 4 ms early", "MinTTLIsKept"},
	{"renewal to MinTTL is lost", "MinTTLIsKept"},
}

// shortest is the MinTTL of the reference store.
const shortest = 10 * time.Millisecond

// lostAtOnce reports whether a grant is reported as lost although it is live, as a bug.
func (c *client) lostAtOnce(r backend.Request) bool {
	return r.TTL <= shortest && (c.is("short lease of a free key is lost") ||
		c.is("wait for a free key for MinTTL is lost") && r.Wait)
}

// keepShortest returns how long the store keeps a grant of ttl.
func (s *server) keepShortest(r backend.Request, ttl time.Duration) time.Duration {
	switch {
	case r.TTL > shortest:
	case s.is("wait for MinTTL is kept for half of it") && r.Wait:
		return ttl / 2
	case s.is("wait for MinTTL is kept for a second") && r.Wait:
		return time.Second
	case s.is("lease of MinTTL ends 4 ms early"):
		return ttl - 4*time.Millisecond
	}
	return ttl
}

// renewShortest reports whether a renewal to MinTTL or less is refused, or skipped, as a bug.
func (s *server) renewShortest(e *entry, ttl time.Duration) (refused, skipped bool) {
	if ttl > shortest {
		return false, false
	}
	return s.is("renewal to MinTTL is lost"), s.is("second renewal to MinTTL is not counted") && !e.renewed.IsZero()
}
