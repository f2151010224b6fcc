package conformance_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// siblingMutants are bugs of one kind of request or lease, where a similar kind is correct.
var siblingMutants = []mutant{
	{"batch whose context has ended has no answers", "RenewBatchReportsEach"},
	{"Inspect returns no token of a lease that was waited for", "LeasesAreAlike"},
	{"list leaves out leases from before a restart", "RestartKeepsOddKeys"},
	{"Close drops the clean-up of cancelled waits", "CloseEndsWaiting"},
	{"waiting reader of a closed client stays in the queue", "CloseEndsWaiting"},
	{"own limit of Resume is reported as a context's", "OwnLimitIsUnavailable"},
	{"late release of a reader ends the lease of a writer of its client", "LateRequestSparesOwnClient"},
	{"reader's TTL below MinTTL is kept as asked", "TTLBelowMinTTLIsMinTTL"},
	{"store keeps a record of each broken lease", "StoreForgetsEndedLeases"},
	{"store keeps a record of each resumed lease", "StoreForgetsEndedLeases"},
	{"store keeps a record of each cancelled wait of a reader", "StoreForgetsEndedLeases"},
	{"Break of nobody leaves a goroutine", "ClientForgetsEndedLeases"},
	{"Resume of nobody leaves a goroutine", "ClientForgetsEndedLeases"},
	{"list keeps a connection until Close", "EndedCallsLeaveNoConnection"},
	{"clean-up of a reader's cancelled wait gives up after 3 seconds", "LongLateAcquireLeavesNothing"},
	{"clean-up of a shared attempt gives up after 3 seconds", "LongLateAcquireLeavesNothing"},
	{"tokens are forgotten with evicted readers", "EvictedTokensIncrease"},
	{"shared Acquire after Close is unavailable", "CloseRefusesLaterCalls"},
	{"reader ends with its connection", "DisconnectedHolderKeepsLease"},
	{"full store refuses renewals of readers", "FullStoreKeepsLeases"},
	{unshared, "BadInputIsRefused"},
	{"Close drops the clean-up of cancelled readers", "CloseEndsWaiting"},
	{"client keeps released readers", "ClientForgetsEndedLeases"},
	{"store keeps a record of each refused reader", "StoreForgetsEndedLeases"},
	{"store keeps a record of each broken reader", "StoreForgetsEndedLeases"},
	{"goroutine for each reader", "LeasesCostNoGoroutines"},
	{"cancelled wait of a reader leaves a goroutine", "EndedWaitsLeakNoGoroutine"},
	{"eviction of readers wakes nobody", "EvictedKeyWakesWaiter"},
	{"Inspect of a key that waits for its next readers is free", "ReservedKeyIsNotFree"},
}

// dropsCleanUp cleans up after a cancelled wait, but not if the client is closed soon, as a bug. It reports whether it
// has the bug.
func (c *client) dropsCleanUp(r backend.Request) bool {
	if !c.is("Close drops the clean-up of cancelled waits") &&
		!(r.Shared && c.is("Close drops the clean-up of cancelled readers")) {
		return false
	}
	go func() {
		const soon = 5 * time.Millisecond
		select {
		case <-time.After(soon):
			c.leases.Withdraw(r, r.TTL)
		case <-c.done:
		}
	}()
	return true
}

// leavesGoroutine leaves a goroutine until the end of the test, if the client has the bug.
func (c *client) leavesGoroutine(bug string) {
	if c.is(bug) {
		go func() { <-c.server.stop }()
	}
}

// resumeError returns the error of a Resume that failed with err.
func (c *client) resumeError(err error) error {
	switch {
	case errors.Is(err, backend.ErrLost):
		c.leavesGoroutine("Resume of nobody leaves a goroutine")
	case errors.Is(err, backend.ErrUnavailable) && c.is("own limit of Resume is reported as a context's"):
		return context.DeadlineExceeded
	}
	return err
}

// endsWriterOf ends the exclusive lease of e if the same client held an expired shared lease of owner, as a bug. It
// reports whether it did.
func (s *server) endsWriterOf(key string, e *entry, owner string) bool {
	if e.owner == "" || !s.is("late release of a reader ends the lease of a writer of its client") ||
		!slices.ContainsFunc(s.ended, func(old endedReader) bool {
			return old.key == key && old.owner == owner && old.client == e.client
		}) {
		return false
	}
	s.endLocked(key, e)
	return true
}
