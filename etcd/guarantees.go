package etcd

import (
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// granularity is etcd's unit of a lease's TTL.
	granularity = time.Second
	// usualMinTTL is the least TTL of a server with the default election timeout of 1 s: 1.5 times the timeout, rounded
	// up.
	usualMinTTL = 2 * time.Second
	// extraTTL is how much longer a lease lives than the lock's TTL. For nearly that long after its grant or renewal, a
	// pooled lease can be used without another renewal.
	extraTTL = time.Second
	// maxLate is the sum of extraTTL, the half second between the leader's searches for expired leases, and the time to
	// delete many keys through Raft. The deletion waits for a busy server's other writes: 0.8 s was measured with a shared
	// disk.
	maxLate = extraTTL + 500*time.Millisecond + 1500*time.Millisecond
)

func guarantees(minTTL time.Duration) backend.Guarantees {
	return backend.Guarantees{
		MinTTL:      minTTL,
		Granularity: granularity,
		MaxLate:     maxLate,
		ReportsLoss: true,
		EnforcedBy:  "clock of etcd's leader",
		Fencing:     backend.FencingRestart,
		FIFO:        true,
		Shared:      true,
		Wake:        backend.WakePush,
		Consistency: backend.Linearizable,
		Reach:       backend.ReachNetwork,
	}
}
