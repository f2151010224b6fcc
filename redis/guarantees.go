package redis

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// minTTL is long enough for a grant to arrive: a shorter lease would often expire before its holder receives the
	// reply.
	minTTL      = 100 * time.Millisecond
	granularity = time.Millisecond
	// maxLate is the most that the server's expiry (1 ms) and a waiter's timer (timerJitter) add to a TTL, with room for a
	// slow network.
	maxLate = 250 * time.Millisecond
)

// earlyLoss applies to every Redis. Opening adds what it learns from the servers.
const earlyLoss = "a restart that loses recent writes, a failover to a replica that lags behind (and a partition, " +
	"while it lasts), FLUSHALL, " +
	"or a step forward of the server's wall clock"

func guarantees() backend.Guarantees {
	return backend.Guarantees{
		MinTTL:      minTTL,
		Granularity: granularity,
		MaxLate:     maxLate,
		EarlyLoss:   earlyLoss,
		EnforcedBy:  "server wall clock",
		Fencing:     backend.FencingLoss,
		FIFO:        true,
		Wake:        backend.WakePush,
		Consistency: backend.BestEffort,
		Reach:       backend.ReachNetwork,
		Shared:      true,
	}
}
