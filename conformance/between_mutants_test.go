package conformance_test

import (
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

const (
	tokenOverflows = "client numbers its grants in ten bits, which overflow"
	cleanUpEnds    = "clean-up of a cut attempt ends what the attempt was granted when it was sent again"
	waitedQueues   = "lease that was waited for takes one of the places in queues that its client may have"
	slowMisses     = "waiter on a slow path finds out by a timer that the key was released as it came"
	stuckStays     = "attempt whose answer is stuck is not cleaned up when its context ends"
	renewalsMeet   = "renewal that meets the renewal of another client of its lease is ErrLost"
	resumeReserved = "resume by a waiter that has its turn, and does not know yet, has no token"
)

// betweenMutants are bugs of what clients keep from one request to the next: a number that several grants share, a
// clean-up in the background, a count of waiters.
var betweenMutants = []mutant{
	{tokenOverflows, "TokensOutliveClients"},
	{cleanUpEnds, "CutInsideAcquire"},
	{waitedQueues, "MaxLeasesAreGranted"},
	{slowMisses, "PushIsPrompt"},
	{stuckStays, "StrandedRequestChangesNothing"},
}

// sharing is a number that a client shares among its grants, for a bug.
type sharing struct {
	client         *client
	number, grants uint64
}

// countedToken returns a token that consists of a number, which changes with the client, and the number of the client's
// grants, of which the bug keeps ten bits.
func (s *server) countedToken(c *client) (token uint64, ok bool) {
	const bits = 10
	if !s.is(tokenOverflows) {
		return 0, false
	}
	if s.sharing.client != c {
		s.sharing = sharing{c, s.sharing.number + 1, 0}
	}
	s.sharing.grants++
	return s.sharing.number<<bits | s.sharing.grants%(1<<bits), true
}

// repeatsAndCleansUp reports whether an attempt of r that failed with err is sent again by the same owner. A second
// later, the bug cleans up after the first request.
func (c *client) repeatsAndCleansUp(r backend.Request, err error) bool {
	if !errors.Is(err, errReset) || r.Wait || !c.is(cleanUpEnds) {
		return false
	}
	time.AfterFunc(time.Second, func() { c.leave(r) })
	return true
}

// missesAsItCame makes the first waiter miss the release of the lease of e if its path is slow, as a bug.
func (s *server) missesAsItCame(e *entry) {
	const moment = 30 * time.Millisecond
	if len(e.queue) == 0 || !s.is(slowMisses) {
		return
	}
	if p := e.queue[0]; p.client.wire != nil && p.client.wire.isSlow() && time.Since(p.since) < moment {
		p.missed = true
	}
}

// isSlow reports whether requests are delayed.
func (w *wire) isSlow() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delay[conformance.ToStore] > 0
}

// enqueueAside puts p behind all waiters that come later if its client has used up its places with leases, as a bug. It
// reports whether it has put p into the queue.
func (s *server) enqueueAside(e *entry, p *place) bool {
	if !s.is(waitedQueues) {
		return false
	}
	held, behind := 0, len(e.queue)
	for _, other := range s.keys {
		if other.owner != "" && other.client == p.client && other.waited {
			held++
		}
	}
	p.overtaken = held >= mostLeases/2
	for !p.overtaken && behind > 0 && e.queue[behind-1].overtaken {
		behind--
	}
	e.queue = slices.Insert(e.queue, behind, p)
	return true
}
