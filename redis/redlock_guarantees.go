package redis

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// redlockMinTTL gives a node 50 ms to answer, a twentieth of it.
	redlockMinTTL = time.Second
	redlockGrain  = time.Millisecond
	// keepPad is how much longer than granted a node keeps a key: a step of its clock that is too small to be noticed
	// (jumpSlack) does not end a lease before its holder's deadline.
	keepPad = jumpSlack
	// redlockMaxLate adds keepPad, the spread of the nodes' requests, and room for a slow network.
	redlockMaxLate = keepPad + 450*time.Millisecond
)

// nodeTimeout is how long an operation waits for a node when a quorum of others has answered.
func nodeTimeout(ttl time.Duration) time.Duration {
	const most, share = 50 * time.Millisecond, 20
	return min(most, ttl/share)
}

// keepFor is how long a node is told to keep a key that is leased for ttl, in ms.
func keepFor(ttl time.Duration) int64 { return (ttl + keepPad).Milliseconds() }

// redlockGuarantees are those of a fleet whose longest TTL is longest. A longer one is refused.
func redlockGuarantees(longest time.Duration) backend.Guarantees {
	return backend.Guarantees{
		MinTTL:      redlockMinTTL,
		Granularity: redlockGrain,
		MaxTTL:      longest,
		MaxLate:     redlockMaxLate,
		EarlyLoss: "a majority of the nodes loses its data before the next renewal: restarts without appendfsync always, " +
			"FLUSHALL, steps forward of wall clocks",
		EnforcedBy:  "wall clocks of a majority of the nodes",
		Fencing:     backend.FencingLoss,
		FIFO:        false,
		Wake:        backend.WakePoll,
		Consistency: backend.BestEffort,
		Reach:       backend.ReachNetwork,
	}
}
