package redlock

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// minTTL gives a node 50 ms to answer, a twentieth of it.
	minTTL      = time.Second
	granularity = time.Millisecond
	// keepPad is how much longer than granted a node keeps a key: a step of its clock that is too small to be noticed
	// (jumpSlack) does not end a lease before its holder's deadline.
	keepPad = jumpSlack
	// maxLate adds keepPad, the spread of the nodes' requests, and room for a slow network.
	maxLate = keepPad + 450*time.Millisecond
)

// nodeTimeout is how long an operation waits for a node when a quorum of others has answered.
func nodeTimeout(ttl time.Duration) time.Duration {
	const most, share = 50 * time.Millisecond, 20
	return min(most, ttl/share)
}

// keepFor is how long a node must keep a key that is leased for ttl, in ms.
func keepFor(ttl time.Duration) int64 { return (ttl + keepPad).Milliseconds() }

// guarantees are those of a fleet whose longest TTL is longest. A longer one is refused.
func guarantees(longest time.Duration) backend.Guarantees {
	return backend.Guarantees{
		MinTTL:      minTTL,
		Granularity: granularity,
		MaxTTL:      longest,
		MaxLate:     maxLate,
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
