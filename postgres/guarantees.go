package postgres

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// minTTL leaves time for a grant to arrive: a shorter lease would often expire before its holder receives the grant.
	minTTL      = 100 * time.Millisecond
	granularity = time.Millisecond
	// maxLate bounds the delay between the TTL and the moment when the key is free. The server's timer may fire late, and
	// its process takes time to end. Measured maxima are 13 ms on an almost idle machine with four processors, 97 ms if 25
	// processes compete for them, and 310 ms in containers without enough CPU time.
	maxLate = 500 * time.Millisecond
	// maxTTL is just below the longest timeout that the server accepts, 2^31 ms.
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
