package postgres

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// minTTL leaves a grant time to arrive: a shorter lease would often be over before its holder hears of it.
	minTTL      = 100 * time.Millisecond
	granularity = time.Millisecond
	// maxLate is what the server's timer and the end of its process add to a TTL: 13 ms at most on a machine with four
	// processors that had little to do, 97 ms with 25 processes that wanted them, and 310 ms in containers that
	// starved.
	maxLate = 500 * time.Millisecond
	// maxTTL is about the longest that the server's timer can be set to, 2^31 ms.
	maxTTL = 24 * 24 * time.Hour
)

func guarantees(o Options) backend.Guarantees {
	g := backend.Guarantees{
		MinTTL:      minTTL,
		Granularity: granularity,
		MaxTTL:      maxTTL,
		MaxLate:     maxLate,
		MaxLeases:   o.MaxLeases,
		EarlyLoss: "a restart, crash or failover of the server; the end of the lease's connection, by pg_terminate_backend " +
			"or a reset on the network; " +
			"or a step forward of the server's wall clock (after a step back, a dead holder's key stays taken for longer " +
			"than MaxLate)",
		ReportsLoss: true,
		EnforcedBy:  "server wall clock",
		Fencing:     backend.FencingProcess,
		FIFO:        true,
		Wake:        backend.WakePush,
		Consistency: backend.BestEffort,
		Reach:       backend.ReachNetwork,
		Shared:      true,
	}
	if o.Durable {
		g.Fencing = backend.FencingRestart
	}
	return g
}
