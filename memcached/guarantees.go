package memcached

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	granularity = time.Second // of memcached's clock
	minTTL      = time.Second
	// maxLate covers serverLag, a busy server's clock and a slow network.
	maxLate = 2*time.Second + 500*time.Millisecond
)

const earlyLoss = "eviction by the cache, a restart, flush_all, a pause of the server, " +
	"or a move of the key to another server"

func guarantees() backend.Guarantees {
	return backend.Guarantees{
		MinTTL:      minTTL,
		MaxTTL:      maxTTL,
		Granularity: granularity,
		MaxLate:     maxLate,
		EarlyLoss:   earlyLoss,
		EnforcedBy:  "server clock",
		Fencing:     backend.FencingLoss,
		FIFO:        false,
		Wake:        backend.WakePoll,
		Consistency: backend.BestEffort,
		Reach:       backend.ReachNetwork,
	}
}
