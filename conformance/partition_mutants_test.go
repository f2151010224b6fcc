package conformance_test

import (
	"context"
	"errors"

	"github.com/anylock/lock/backend"
)

const releaseForgets = "Release after one that failed is nil, whatever the store has"

// partitionMutants are bugs that partitions and broken wake-ups trigger.
var partitionMutants = []mutant{
	{"hung Renew keeps Lost open", "PartitionLosesBeforeNext"},
	{"Lost closes 3 seconds late", "PartitionLosesBeforeNext"},
	{"waiter's lease begins when it takes notice", "PartitionedWaiterLeavesQueue"},
	{"broken connection parks the waiter", "PartitionHealsWaiter"},
	{"broken connection ends the wait", "PartitionHealsWaiter"},
	{"Release waits for the store for ever", "PartitionedReleaseIsBounded"},
	{releaseForgets, "PartitionedReleaseIsBounded"},
	{"attempt ignores the context while the store hangs", "PartitionHonoursContext"},
	{"context's end is reported as i/o timeout", "PartitionHonoursContext"},
	{"Close waits for an answer", "PartitionedCloseIsBounded"},
	{"Close leaves waiters waiting", "PartitionedCloseIsBounded"},
	{"broken connection parks the waiter", "WakeUpCutParksNobody"},
}

// releaseOnce is Release for a client that forgets the lease even if its release fails, as a bug.
func (b *bent) releaseOnce(ctx context.Context) error {
	if b.forgotten.Load() {
		return nil
	}
	err := b.Life.Release(ctx)
	b.forgotten.Store(err != nil && !errors.Is(err, backend.ErrLost))
	return err
}
