package conformance_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	repeatKept      = "attempt sent again counts from then, and the store keeps the first expiry"
	repeatToken     = "attempt sent again has a new token, and the store keeps the first"
	renewalKept     = "renewal sent again counts from then, and the store ignores the copy"
	resumeKept      = "resume sent again counts from then, and the store ignores the copy"
	renewalShifts   = "renewal gets the answer to one that was cancelled"
	breakShifts     = "break gets the answer to one that was cancelled"
	breakAgain      = "break sent again ends whoever holds the key"
	cutCancels      = "cut attempt is reported as context.Canceled"
	cutWaitCancels  = "cut wait is reported as context.Canceled"
	renewalCancels  = "cut renewal is reported as context.Canceled"
	releaseCancels  = "cut release is reported as context.Canceled"
	breakCancels    = "cut break is reported as context.Canceled"
	inspectCancels  = "cut Inspect is reported as context.Canceled"
	batchCancels    = "cut batch is reported as context.Canceled"
	listCancels     = "cut list is reported as context.Canceled"
	fullFrame       = "batch of a multiple of 64 leases fails"
	listsLeft       = "list returns free keys whose waiters have left"
	listCaches      = "list is answered from a cache for a second"
	hugePolls       = "waiter behind a lease of more than 25 days asks without pause"
	hugeParks       = "waiter behind a lease of more than 25 days is not woken"
	inspectOver     = "Inspect returns a negative TTL of a lease that has just expired"
	astralKeys      = "characters of four bytes are alike in keys"
	astralOwners    = "characters of four bytes are alike in owners"
	endsOfKeys      = "keys over 512 bytes are known by their ends"
	onLostLock      = "OnLost calls under the lock of OnLost"
	deadlineWaits   = "Deadline waits for a renewal under way"
	notReadyAsks    = "NotReady makes a request"
	openDeadline    = "connection keeps the deadline of the context that it was opened with"
	parks260        = "waiter number 260 is parked"
	staleTimer      = "store wakes a waiter only when the lease has ended whose grant would have ended first"
	ownInspect      = "Inspect of a client's own lease makes no request"
	renewsItself    = "client renews its leases by itself every 3 seconds"
	processUnlisted = "list leaves out leases of other processes"
	processUnbroken = "break finds no lease of another process"
	turnDeafens     = "client whose waiter gives up at its turn is woken by a timer from then on"
)

// handwrittenMutants are bugs of clients and stores that people write by hand: copies of requests, answers out of step,
// contexts of connections, locks held for too long, and numbers that are too small.
var handwrittenMutants = []mutant{
	{repeatKept, "LateAnswerCountsFromSending"},
	{renewalKept, "LateAnswerCountsFromSending"},
	{resumeKept, "LateAnswerCountsFromSending"},
	{repeatToken, "LostAcquireReplyLeavesNothing"},
	{renewalShifts, "CancelledUnderWay"},
	{breakShifts, "CancelledUnderWay"},
	{breakAgain, "FaultyHolderKeepsQueue"},
	{cutCancels, "CutInsideAcquire"},
	{cutWaitCancels, "CutInsideWait"},
	{renewalCancels, "CutInsideRenew"},
	{releaseCancels, "CutInsideRelease"},
	{breakCancels, "CutInsideBreak"},
	{inspectCancels, "CutInsideBreak"},
	{batchCancels, "CutInsideBatch"},
	{listCancels, "CutListFails"},
	{fullFrame, "LargeBatchRenewsEach"},
	{listsLeft, "ListReturnsHeldKeys"},
	{listCaches, "ListReturnsHeldKeys"},
	{hugePolls, "WaitingPollsSeldom"},
	{hugeParks, "ExtremesAreAccepted"},
	{inspectOver, "InspectAfterExpiry"},
	{astralKeys, "KeysAreInjective"},
	{endsOfKeys, "KeysAreLong"},
	{onLostLock, "OnLostCallsWhateverEndsIt"},
	{deadlineWaits, "CancelledSecondRenewal"},
	{notReadyAsks, "CancelledSecondRenewal"},
	{openDeadline, "CancelledAfterGrant"},
	{parks260, "ManyWaitersDrain"},
	{turnDeafens, "PushIsPrompt"},
	{processUnlisted, "KilledHolderFreesKey"},
	{processUnbroken, "KilledHolderFreesKey"},
	{renewsItself, "AgedThingsStand"},
	{staleTimer, "WaiterIsNotLate"},
	{ownInspect, "EvictedReleaseSparesNewHolder"},
}

// repeats returns the answer to an attempt of an owner that holds the key already, with a bug. done reports whether the
// server has one.
func (s *server) repeats(key string, e *entry, r backend.Request, c *client, now time.Time) (g granted, done bool) {
	switch {
	case !r.Shared && e.owner == r.Owner && s.is(copiesBusy):
		if end := now.Add(s.keep(r.TTL)); end.After(e.expires) {
			e.expires = end
		}
		return granted{e.token, now}, true
	case r.Shared || r.Wait || e.owner != r.Owner:
		return g, false
	case s.is(repeatToken):
		e.expires = now.Add(s.keep(r.TTL))
		return granted{s.nextToken(key, c), now}, true
	}
	return granted{e.token, now}, s.is(repeatKept)
}

// renewsAgain repeats a renewal whose connection broke, as a bug. The store ignores the copy if it has served the
// request. begun is when that was sent.
func (q requests) renewsAgain(ctx context.Context, l *kit.Life, ttl time.Duration, begun time.Time) (
	granted time.Duration, err error,
) {
	again, found := time.Now(), false
	err = q.c.do(ctx, func() {
		found = q.c.server.renewedSince(l.Key(), l.Owner(), begun) || q.c.renewed(l, ttl)
	})
	if err == nil && !found {
		err = backend.ErrLost
	}
	return ttl + again.Sub(begun), err
}

// renewedSince reports whether owner holds key, and has renewed its lease since begun.
func (s *server) renewedSince(key, owner string, begun time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(s.name(key))
	return e.owner == owner && e.renewed.After(begun)
}

// leavesAnswer leaves the answer to a request that was cancelled to the next request of its kind, as a bug.
func (c *client) leavesAnswer(ctx context.Context, bug string) {
	if c.wire != nil && ctx.Err() != nil && c.is(bug) {
		c.stale.Store(true)
	}
}

// takesAnswer reports whether a request gets the answer to one that was cancelled, as a bug. The request is sent.
func (c *client) takesAnswer(bug string, request func()) bool {
	if !c.is(bug) || !c.stale.Swap(false) {
		return false
	}
	go func() { _ = c.do(context.Background(), request) }()
	return true
}

// breaksAgain repeats a Break whose connection broke, and ends whoever holds the key, as a bug.
func (c *client) breaksAgain(ctx context.Context, key string) error {
	return c.do(ctx, func() {
		if h := c.server.inspect(key); h.Held() {
			c.server.breakLease(key, h.Owner)
		}
	})
}

// cancelled returns the error of a request that failed with err. As one of bugs, a broken connection is reported as the
// end of a context.
func (c *client) cancelled(err error, bugs ...string) error {
	if errors.Is(err, errReset) && c.is(bugs...) {
		return context.Canceled
	}
	return err
}

// batchAtOnce returns the errors of a batch that fails before any request, as a bug.
func (c *client) batchAtOnce(n int) (errs []error, failed bool) {
	const frame = 64
	if n == 0 || n%frame > 0 || !c.is(fullFrame) {
		return nil, false
	}
	return slices.Repeat([]error{errors.New("empty frame")}, n), true
}

// A cachedList is the result of an earlier List, as a bug.
type cachedList struct {
	at   time.Time
	keys []string
}

// listsAgain is List with a cache, as a bug.
func (c *client) listsAgain(ctx context.Context, prefix string) (keys []string, err error) {
	if old, ok := c.lists.Load(prefix); ok && time.Since(old.(cachedList).at) < time.Second {
		return slices.Clone(old.(cachedList).keys), nil
	}
	if err := c.do(ctx, func() { keys = c.server.list(c, prefix) }); err != nil {
		return nil, err
	}
	c.lists.Store(prefix, cachedList{time.Now(), slices.Clone(keys)})
	return keys, nil
}

// huge is longer than milliseconds in 31 bits can be.
const huge = 25 * 24 * time.Hour

// asksBehindHuge polls without pause while the lease of key lasts for more than 25 days, as a bug.
func (c *client) asksBehindHuge(key string, over <-chan struct{}) {
	for isOpen(over) && isOpen(c.done) && !c.wire.isDead() {
		if c.server.inspect(key).TTL > huge {
			_ = c.do(context.Background(), func() {})
		} else {
			time.Sleep(time.Millisecond) // sleeps: before the next look
		}
	}
}

func isOpen(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return false
	default:
		return true
	}
}

// lingers reports whether the server has not removed the expired lease of e yet, as a bug.
func (s *server) lingers(e *entry, now time.Time) bool {
	const removed = 15 * time.Millisecond // less than MaxLate
	return e.owner != "" && s.is(inspectOver) && now.Sub(e.expires) < removed
}

// withoutAstral replaces the characters of four bytes.
func withoutAstral(key string) string { return astral.ReplaceAllString(key, "\ufffe") }

var astral = regexp.MustCompile("[\U00010000-\U0010ffff]")

// endsOf returns a key of more than 512 bytes without its middle.
func endsOf(key string) string {
	const most, ends = 512, 200
	if len(key) <= most {
		return key
	}
	return key[:ends] + strings.Repeat("-", len(key)-2*ends) + key[len(key)-ends:]
}

// timesOutSince returns the error of a request after the deadline of the context that c was opened with, as a bug.
func (c *client) timesOutSince() error {
	if c.until.IsZero() || time.Now().Before(c.until) {
		return nil
	}
	return errors.New("i/o timeout")
}

// leavesTurn makes the client deaf if p has a turn that nobody takes, as a bug.
func (c *client) leavesTurn(p *place) {
	const arrives = 5 * time.Millisecond
	if c.is(turnDeafens) {
		time.AfterFunc(arrives, func() { c.deaf.Store(c.deaf.Load() || len(p.turn) > 0) })
	}
}

// lateBehind returns how much later than e's lease a lease ends that was due to end first when it was granted, as a bug.
func (s *server) lateBehind(e *entry) (late time.Duration) {
	if !s.is(staleTimer) {
		return 0
	}
	for _, other := range s.keys {
		if other != e && other.owner != "" && other.happened.due.Before(e.happened.due) {
			late = max(late, other.expires.Sub(e.expires))
		}
	}
	return late
}

// ownHolder describes the live lease that c itself has on key, as a bug.
func (c *client) ownHolder(key string) (h backend.Holder, ok bool) {
	own, ok := c.byOwner.Load(key)
	if !ok || !c.is(ownInspect) {
		return h, false
	}
	life := own.(*kit.Life)
	left := time.Until(life.Deadline())
	if left <= 0 || !isOpen(life.Lost()) {
		return h, false
	}
	return backend.Holder{Owner: life.Owner(), Token: life.Token(), TTL: left + backend.Margin(left), Waiters: -1}, true
}

// renewsEvery renews the lease of r again and again, until it has ended or the client is closed, as a bug.
func (c *client) renewsEvery(r backend.Request) {
	const heartbeat = 3 * time.Second
	if r.Shared || !c.is(renewsItself) {
		return
	}
	time.AfterFunc(heartbeat, func() {
		alive := isOpen(c.done) && isOpen(c.server.stop) && (c.wire == nil || !c.wire.isDead())
		if alive && c.server.renew(r.Key, r.Owner, c, r.TTL) {
			c.renewsEvery(r)
		}
	})
}
