package etcd

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// granularity is etcd's unit of a lease's TTL.
	granularity = time.Second
	// usualMinTTL is what a server with the default election timeout of 1 s grants at least: 1.5 times that, rounded up.
	usualMinTTL = 2 * time.Second
	// spare is what leases are granted for on top of the locks' TTL. A pooled lease serves as it is for nearly so long
	// after it was granted or renewed.
	spare = time.Second
	// maxLate is spare, the half second between the leader's looks at its leases, and time for the deletion of many keys through
	// Raft, which waits behind what else a busy server writes to its disk: 0.8 s was measured where that was shared with others.
	maxLate = spare + 500*time.Millisecond + 1500*time.Millisecond
)

func guarantees(minTTL time.Duration) backend.Guarantees {
	return backend.Guarantees{
		MinTTL:      minTTL,
		Granularity: granularity,
		MaxLate:     maxLate,
		TellsLoss:   true,
		EnforcedBy:  "clock of etcd's leader",
		Fencing:     backend.FencingRestart,
		FIFO:        true,
		Wake:        backend.WakePush,
		Consistency: backend.Linearizable,
		Reach:       backend.ReachNetwork,
	}
}
