package redlock

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// minTTL gives a node 50 ms to reply: a twentieth of the TTL.
	minTTL      = time.Second
	granularity = time.Millisecond
	// keepPad is how much longer than granted a node keeps a key. So a clock step that is too small to be noticed
	// (jumpSlack) does not end a lease before its holder's deadline.
	keepPad = jumpSlack
	// maxLate is keepPad, plus the spread of the nodes' requests, plus room for a slow network.
	maxLate = keepPad + 450*time.Millisecond
)

// nodeTimeout is how long an operation waits for a node once a quorum has replied.
func nodeTimeout(ttl time.Duration) time.Duration {
	const most, share = 50 * time.Millisecond, 20
	return min(most, ttl/share)
}

// keepFor returns how long a node must keep a key that is leased for ttl, in ms.
func keepFor(ttl time.Duration) int64 { return (ttl + keepPad).Milliseconds() }

// guarantees returns the guarantees of a fleet whose longest TTL is longest. A longer TTL is rejected.
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
