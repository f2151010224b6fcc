package conformance_test

// partitionMutants are bugs that partitions and broken wake-ups trigger.
var partitionMutants = []mutant{
	{"hung Renew keeps Lost open", "PartitionLosesBeforeNext"},
	{"Lost closes 3 seconds late", "PartitionLosesBeforeNext"},
	{"waiter's lease begins when it takes notice", "PartitionedWaiterLeavesQueue"},
	{"broken connection parks the waiter", "PartitionHealsWaiter"},
	{"broken connection ends the wait", "PartitionHealsWaiter"},
	{"Release waits for the store for ever", "PartitionedReleaseIsBounded"},
	{"attempt ignores the context while the store hangs", "PartitionHonoursContext"},
	{"context's end is reported as i/o timeout", "PartitionHonoursContext"},
	{"Close waits for an answer", "PartitionedCloseIsBounded"},
	{"Close leaves waiters waiting", "PartitionedCloseIsBounded"},
	{"broken connection parks the waiter", "WakeUpCutParksNobody"},
}
