package conformance_test

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

// endingMutants are bugs in how things end: who is notified of a loss, what a cancellation ends, and what a closed
// client keeps.
var endingMutants = []mutant{
	{"OnLost is silent on Close", "OnLostCallsWhateverEndsIt"},
	{"OnLost is silent when a renewal hears of the loss", "OnLostCallsWhateverEndsIt"},
	{"OnLost calls at the first deadline", "OnLostCallsWhateverEndsIt"},
	{"OnLost calls 3 seconds after Lost closes", "OnLostCallsWhateverEndsIt"},
	{"OnLost calls only the first of several", "OnLostCallsWhateverEndsIt"},

	{"attempt under way ignores cancellation", "CancelledUnderWay"},
	{"wait under way ignores cancellation", "CancelledUnderWay"},
	{"renewal under way ignores cancellation", "CancelledUnderWay"},
	{"batch under way ignores cancellation", "CancelledUnderWay"},
	{"Inspect under way ignores cancellation", "CancelledUnderWay"},
	{"list under way ignores cancellation", "CancelledUnderWay"},
	{"break under way ignores cancellation", "CancelledUnderWay"},
	{"cancellation under way is reported as a timeout", "CancelledUnderWay"},
	{"cancellation under way is reported as its cause alone", "CancelledUnderWay"},
	{"attempt under way ignores cancellation", "FrozenStoreHonoursContext"},
	{"Inspect under way ignores cancellation", "FrozenStoreHonoursContext"},

	{"Close keeps its connection", "CloseLeavesNoConnection"},
	{"Close keeps connections of cancelled waits", "CloseLeavesNoConnection"},
	{"Close keeps connections that were given up", "CloseLeavesNoConnection"},
	{"Close keeps its connection while a lease is live", "CloseLeavesNoConnection"},
	{"Close keeps its connection while a request is under way", "CloseLeavesNoConnection"},
	{"cancelled wait keeps a connection until Close", "EndedCallsLeaveNoConnection"},
	{"attempt that is given up keeps a connection until Close", "EndedCallsLeaveNoConnection"},
	{"refused attempt keeps a connection until Close", "EndedCallsLeaveNoConnection"},

	{"Close ends waits as unavailable", "CloseEndsWaiting"},
	{"one waiter in 10 that has waited for 100 ms gets an outage error at its turn", "PushIsPrompt"},
	{"waiter whose turn comes after 200 ms gets a connection error", "FIFOAfterExpiry"},
	{"waiter whose turn comes after 200 ms gets a connection error", "HistoryUnderExpiry"},
	{"waiter whose turn comes after 200 ms gets a connection error", "WrongClockEndsNothingEarly"},
}

// atTurn returns the error that a waiter gets at its turn instead of the key, as a bug.
func (c *client) atTurn(p *place) error {
	waited := time.Since(p.since)
	switch {
	case c.is("one waiter in 10 that has waited for 100 ms gets an outage error at its turn") &&
		waited > 100*time.Millisecond && c.server.oneInLocked(10):
		return fmt.Errorf("%w: connection reset", backend.ErrUnavailable)
	case c.is("waiter whose turn comes after 200 ms gets a connection error") && waited > 200*time.Millisecond:
		return io.EOF
	}
	return nil
}

// only returns ctx without its cancellation, but with its deadline, if the client has the bug. It changes ctx only
// behind a wire, or while the store is frozen.
func (c *client) only(ctx context.Context, bug string) context.Context {
	if !c.is(bug) || c.wire == nil && !c.server.frozen.Load() {
		return ctx
	}
	left := context.WithoutCancel(ctx)
	if d, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		left, cancel = context.WithDeadline(left, d)
		context.AfterFunc(left, cancel)
	}
	return left
}

// keeps leaves a connection open, if the client has one of bugs.
func (c *client) keeps(bugs ...string) {
	if c.wire != nil && c.is(bugs...) {
		c.wire.mu.Lock()
		defer c.wire.mu.Unlock()
		c.wire.kept++
	}
}

// hangUp closes the connections of a client that is closed.
func (c *client) hangUp() {
	if c.wire == nil || c.is("Close keeps its connection") ||
		c.is("Close keeps its connection while a lease is live") && c.server.holdsOf(c) ||
		c.is("Close keeps its connection while a request is under way") && c.wire.asking.Load() > 0 {
		return
	}
	c.wire.set(func() {
		c.wire.breakLocked()
		if !c.is("Close keeps connections of cancelled waits", "Close keeps connections that were given up") {
			c.wire.kept = 0
		}
	})
}

// Connections implements conformance.Link.
func (w *wire) Connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.kept
	if w.conn != nil {
		n++
	}
	return n
}

// holdsOf reports whether c holds an exclusive lease.
func (s *server) holdsOf(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		if e.client == c && time.Now().Before(e.expires) {
			return true
		}
	}
	return false
}

// onLost is OnLost with the bug of the server.
func (b *bent) onLost(f func()) {
	switch {
	case b.is(silentBatch, silentRelease):
		b.Life.OnLost(func() {
			if !b.silent.Load() {
				f()
			}
		})
	case b.is("OnLost is not called when the store reports the loss",
		"OnLost is not called for a removal after a cut") &&
		(b.c.wire != nil || !b.is("OnLost is not called for a removal after a cut")):
		b.Life.OnLost(func() {
			if !b.pushed() {
				f()
			}
		})
	case b.is("OnLost calls twice when the store reports the loss"):
		b.Life.OnLost(func() {
			if f(); b.pushed() {
				f()
			}
		})
	case b.is("OnLost is silent on Close"):
		b.Life.OnLost(func() {
			if !b.c.leases.Closed() {
				f()
			}
		})
	case b.is("OnLost is silent when a renewal hears of the loss"),
		b.Shared() && b.is("OnLost of a reader is silent when a renewal hears of the loss"):
		b.Life.OnLost(func() {
			if b.c.leases.Closed() || !time.Now().Before(b.Deadline()) {
				f()
			}
		})
	case b.is("OnLost calls at the first deadline"):
		var called atomic.Bool
		once := func() {
			if called.CompareAndSwap(false, true) {
				f()
			}
		}
		time.AfterFunc(time.Until(b.Deadline()), once)
		b.Life.OnLost(once)
	case b.is("OnLost calls 3 seconds after Lost closes"):
		b.Life.OnLost(func() { time.AfterFunc(3*time.Second, f) })
	case b.is("OnLost calls only the first of several") && b.registered.Swap(true) && b.Deadline().After(time.Now()):
	default:
		b.Life.OnLost(f)
	}
}

// pushed reports whether the server has reported the loss of b.
func (b *bent) pushed() bool {
	_, pushed := b.c.pushed.Load(b.Owner())
	return pushed
}

var _ backend.LossNotifier = (*bent)(nil)
