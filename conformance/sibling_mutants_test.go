package conformance_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// what is right for one kind of request or lease, and wrong for another
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
}

// dropsCleanUp cleans up after a cancelled wait unless the client is closed soon, where that is the bug.
func (c *client) dropsCleanUp(r backend.Request) bool {
	if !c.is("Close drops the clean-up of cancelled waits") {
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

// leavesGoroutine leaves one for good, as a bug.
func (c *client) leavesGoroutine(bug string) {
	if c.is(bug) {
		go func() { <-c.server.stop }()
	}
}

// resumeError is the error of a Resume that failed with err.
func (c *client) resumeError(err error) error {
	switch {
	case errors.Is(err, backend.ErrLost):
		c.leavesGoroutine("Resume of nobody leaves a goroutine")
	case errors.Is(err, backend.ErrUnavailable) && c.is("own limit of Resume is reported as a context's"):
		return context.DeadlineExceeded
	}
	return err
}

// endsWriterOf ends the exclusive lease of e if it is of the client whose reader owner was, as a bug.
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
