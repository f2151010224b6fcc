package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	batchRestarted   = "batch fails after a restart"
	sharedRestarted  = "shared Acquire fails after a restart"
	breakAfterCut    = "break fails after a cut"
	listEmptied      = "list fails when the store was emptied"
	cutBreakDone     = "cut break is reported as done"
	cutBreakLost     = "cut break is ErrLost"
	cutInspectFree   = "Inspect whose connection broke is free"
	closeEndsContext = "call under way at Close ends with a context's error"
	listsExpired     = "list returns keys whose leases have expired"
	breakBackslash   = "break finds no owner with a backslash"
	inspectBar       = "Inspect returns another token of an owner with a bar"
	batchesSwap      = "batches at once get each other's answers"
	batchReaders     = "batch has one answer for all readers of a key"
	keepsClients     = "store keeps a record of each closed client"
	neverReady       = "ready store says that it is not"
	capacityHangs    = "Capacity ignores its context"
	dialsLater       = "attempt that could not connect is sent later"
	dialsJoin        = "attempts that dial at once share the context of the first"
	openLeaks        = "Open that fails leaves a goroutine"
	refusedLeaks     = "attempt that could not connect leaves a goroutine"
)

// methodMutants are bugs of single methods: after an event, when they meet others, or for some names.
var methodMutants = []mutant{
	{batchRestarted, "RestartKeepsWaiters"},
	{sharedRestarted, "RestartKeepsWaiters"},
	{breakAfterCut, "CutClientRecovers"},
	{listEmptied, "EmptiedStoreServes"},
	{cutBreakDone, "CutInsideBreak"},
	{cutBreakLost, "CutInsideBreak"},
	{cutInspectFree, "CutInsideBreak"},
	{closeEndsContext, "CloseEndsCallsUnderWay"},
	{listsExpired, "ListReturnsHeldKeys"},
	{breakBackslash, "ExtremesAreAccepted"},
	{inspectBar, "ExtremesAreAccepted"},
	{batchesSwap, "RenewBatchReportsEach"},
	{keepsClients, "StoreForgetsEndedLeases"},
	{neverReady, "ReadyStoreSaysSo"},
	{capacityHangs, "ReadyStoreSaysSo"},
	{dialsLater, "RefusedDialIsUnavailable"},
	{dialsJoin, "UnansweredDialHonoursContext"},
	{openLeaks, "RefusedDialIsUnavailable"},
	{refusedLeaks, "RefusedDialIsUnavailable"},
}

var (
	_ backend.Readiness = (*client)(nil)
	_ backend.Capacity  = (*client)(nil)
)

// NotReady implements backend.Readiness.
func (c *client) NotReady() error {
	if c.is(neverReady) {
		return errors.New("the store is starting")
	}
	if c.is(notReadyAsks) {
		_ = c.do(context.Background(), func() {})
	}
	return nil
}

// Capacity implements backend.Capacity. There is no limit.
func (c *client) Capacity(ctx context.Context) (leases int, err error) {
	if c.is(capacityHangs) {
		ctx = context.WithoutCancel(ctx)
	}
	if err := kit.ContextError(ctx, nil); err != nil {
		return 0, err
	}
	return 0, c.do(ctx, func() {})
}

// unserved returns the error of a method that fails after an event, as a bug.
func (c *client) unserved(bug string) error {
	if !c.is(bug) {
		return nil
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if bug == breakAfterCut && c.wasCut() || bug == listEmptied && c.server.emptied > 0 ||
		(bug == batchRestarted || bug == sharedRestarted) && c.server.restarts > 0 {
		return errors.New("no such script")
	}
	return nil
}

// cutBreak returns the error of a Break that failed with err, with the bugs of broken connections.
func (c *client) cutBreak(err error) error {
	switch {
	case !errors.Is(err, errReset):
	case c.is(cutBreakDone):
		return nil
	case c.is(cutBreakLost):
		return backend.ErrLost
	}
	return c.cancelled(err, breakCancels)
}

// cutInspect is cutBreak for Inspect, and for a client that was closed meanwhile.
func (c *client) cutInspect(err error) error {
	switch {
	case errors.Is(err, errReset) && c.is(cutInspectFree):
		return nil
	case err != nil && c.leases.Closed() && c.is(closeEndsContext):
		return context.Canceled
	}
	return c.cancelled(err, inspectCancels)
}

// listsOver reports whether List returns the key of e, whose lease has expired or was evicted, as a bug.
func (s *server) listsOver(e *entry, now time.Time) bool {
	return e.owner != "" && !now.Before(e.expires) && s.is(listsExpired) || e.evicted && s.is(listsEvicted) ||
		e.left && s.is(listsLeft)
}

// listed applies the bug that List prolongs the lease of e.
func (s *server) listed(e *entry) {
	if e.owner != "" && s.is(listProlongs) {
		e.expires = time.Now().Add(e.lastTTL)
		e.renewed = time.Now()
	}
}

// A meeting is what a client remembers of its batches and notifications under way, as a bug.
type meeting struct {
	underWay atomic.Int64
	last     []error // of the batch before; guarded by client.mu

	removals atomic.Int64 // notifications of removals under way
}

// swapsAnswers returns the answers of another batch under way, as a bug.
func (c *client) swapsAnswers(errs []error) []error {
	if !c.is(batchesSwap) {
		return errs
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.meeting.last
	c.meeting.last = slices.Clone(errs)
	if c.meeting.underWay.Load() > 1 && len(before) == len(errs) {
		return before
	}
	return errs
}

// answersReaders gives all readers of a key in a batch the answer of the last one, as a bug.
func (c *client) answersReaders(renewals []backend.Renewal, errs []error) {
	if !c.is(batchReaders) {
		return
	}
	last := make(map[string]error)
	each := func(f func(key string, err *error)) {
		for i, r := range renewals {
			if l, ok := r.Lease.(*kit.Life); ok && l.Shared() {
				f(l.Key(), &errs[i])
			}
		}
	}
	each(func(key string, err *error) { last[key] = *err })
	each(func(key string, err *error) { *err = last[key] })
}

// missesOwner reports whether Break does not find owner, as a bug.
func (s *server) missesOwner(owner string) bool {
	return strings.Contains(owner, `\`) && s.is(breakBackslash)
}

// dialsAgain sends an attempt that was refused a connection later, although its caller has gone, as a bug. It reports
// whether it will.
func (c *client) dialsAgain(r backend.Request, err error) bool {
	if !errors.Is(err, errRefused) || r.Wait || !c.is(dialsLater) {
		return false
	}
	go func() {
		const pause = time.Second
		for !c.wire.isDead() && !c.leases.Closed() {
			time.Sleep(pause) // sleeps: before the client dials again
			if c.exchange(context.Background(), func() { c.server.acquire(c, r) }) == nil {
				return
			}
		}
	}()
	return true
}

// dialContext returns the context of the first of the dials under way, as a bug.
func (c *client) dialContext(ctx context.Context) (_ context.Context, end func()) {
	if !c.is(dialsJoin) {
		return ctx, func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialling == nil {
		c.dialling = ctx
	}
	first := c.dialling
	return first, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.dialling == first {
			c.dialling = nil
		}
	}
}
