package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// seriesMutants are bugs in which renewals and waits are not served because of what happened before.
var seriesMutants = []mutant{
	{"each seventh renewal of a lease does nothing", "EachRenewalCounts"},
	{"each twentieth renewal of a lease does nothing", "EachRenewalCounts"},
	{"renewal within 5 ms of the last one does nothing", "EachRenewalCounts"},
	{"renewal while 9/10 of its TTL is left does nothing", "EachRenewalCounts"},
	{"renewals after the third do nothing while others wait", "EachRenewalCounts"},
	{"TTL is cut to multiples of 4 ms", "OddTTLsAreKept"},
	{"renewal is cut to multiples of 100 ms", "RenewalsAreKept"},
	{"renewal of a reader is cut to multiples of 100 ms", "RenewalsAreKept"},
	{"batch cuts the TTLs of readers to seconds", "RenewalsAreKept"},
	{"batch shortens no lease", "LargeBatchRenewsEach"},
	{"batch renews one of the keys that begin alike", "LargeBatchRenewsEach"},
	{"one renewal in 50 leaves a goroutine", "CloseLeaksNoGoroutine"},
	{"cut wait leaves a goroutine", "CutWaitsLeakNoGoroutine"},
	{"cut request counts from a while after it is sent again", "CutInsideAcquire"},
	{"one waiter of a client queues again after a cut", "EachWaiterOutlivesOutage"},
	{"waiter of more than 3 seconds gives up when it is cut", "EachWaiterOutlivesOutage"},
	{"attempt that meets an expired lease passes those who wait", "ExpiryIsNoGap"},
	{"waiter that meets an expired lease passes those who wait", "ExpiryIsNoGap"},
	{"shared attempt that meets a dead writer passes those who wait", "ExpiryIsNoGap"},
	{"reader that comes to wait as a writer has died passes those who wait", "ExpiryIsNoGap"},
	{"waiter for a key with a newline looks once a second", "PushIsPrompt"},
	{"waiter for a key over 255 bytes looks once a second", "PushIsPrompt"},
	{"waiter for a key that was broken before looks once a second", "PushIsPrompt"},
	{"timed-out wait behind another does not match ErrHeld", "EndedWaitReportsBusy"},
	{"cancelled wait returns the cause alone", "EndedWaitReportsBusy"},
	{"wait of a reader that is cancelled does not match ErrHeld", "EndedWaitReportsBusy"},
	{"cancelled wait that was longer than its TTL is not cleaned up", "WaitOutlivesOwnTTL"},
	{"OnLost calls nothing that is registered after Close", "OnLostCallsWhateverEndsIt"},
	{"OnLost of a reader calls twice", "OnLostCallsWhateverEndsIt"},
	{"OnLost of a reader is silent when a renewal hears of the loss", "OnLostCallsWhateverEndsIt"},
	{"Inspect cuts the owner at its last of several @", "EvictedOwnersThatLookAlike"},
}

// skipsRenewal reports whether a renewal by the holder does nothing, as a bug.
func (s *server) skipsRenewal(key string, e *entry, ttl time.Duration) bool {
	e.renewals++
	left, now := time.Until(e.expires), time.Now()
	return e.renewals%7 == 0 && s.is("each seventh renewal of a lease does nothing") ||
		e.renewals%20 == 0 && s.is("each twentieth renewal of a lease does nothing") ||
		now.Sub(e.renewed) < 5*time.Millisecond && s.is("renewal within 5 ms of the last one does nothing") ||
		left > ttl*9/10 && left <= ttl && s.is("renewal while 9/10 of its TTL is left does nothing") ||
		e.renewals > 3 && len(e.queue) > 0 && s.is("renewals after the third do nothing while others wait") ||
		len(key) > 255 && s.is("renewal of a key over 255 bytes does nothing")
}

// inBatch returns the TTL to which a batch renews l, or 0 if a bug skips l. others are the leases before l in the
// batch.
func (c *client) inBatch(others []*kit.Life, l *kit.Life, ttl time.Duration) time.Duration {
	const alike = 64
	switch {
	case l.Shared() && ttl > time.Second && c.is("batch cuts the TTLs of readers to seconds"):
		return ttl.Truncate(time.Second)
	case len(others) > 0 && c.is("batch shortens no lease") && ttl < c.server.inspect(l.Key()).TTL:
		return 0
	case len(l.Key()) > alike && c.is("batch renews one of the keys that begin alike") &&
		slices.ContainsFunc(others, func(o *kit.Life) bool { return strings.HasPrefix(o.Key(), l.Key()[:alike]) }):
		return 0
	}
	return ttl
}

// overtakes ends an expired lease without waking waiters, as a bug, so that r can be granted the key although others
// wait. It reports whether it did.
func (s *server) overtakes(e *entry, r backend.Request, now time.Time) bool {
	bug := "attempt that meets an expired lease passes those who wait"
	if r.Wait {
		bug = "waiter that meets an expired lease passes those who wait"
	}
	if len(e.queue) == 0 || e.owner == "" || now.Before(e.expires) || r.Shared || !s.is(bug) {
		return false
	}
	e.owner, e.client = "", nil
	return true
}

// endsOddly applies the bugs of a wait whose context has ended. odd reports whether err is the result.
func (c *client) endsOddly(ctx context.Context, r backend.Request, p *place) (err error, odd bool) {
	switch {
	case p.before > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) &&
		c.is("timed-out wait behind another does not match ErrHeld"),
		r.Shared && c.is("wait of a reader that is cancelled does not match ErrHeld"):
		err = ctx.Err()
	case context.Cause(ctx) != ctx.Err() && c.is("cancelled wait returns the cause alone"):
		err = fmt.Errorf("%w: %w", backend.ErrHeld, context.Cause(ctx))
	case time.Since(p.since) > r.TTL && c.is("cancelled wait that was longer than its TTL is not cleaned up"):
		return c.endOfWait(ctx), true
	default:
		return nil, false
	}
	c.leases.Withdraw(r, r.TTL)
	return err, true
}

// looksRarely reports whether the waiter of p polls only once a second, as a bug.
func (c *client) looksRarely(p *place) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(p.Key, "\n") && s.is("waiter for a key with a newline looks once a second") ||
		len(p.Key) > 255 && s.is("waiter for a key over 255 bytes looks once a second") ||
		s.entryLocked(s.name(p.Key)).broken && s.is("waiter for a key that was broken before looks once a second") ||
		s.entryLocked(s.name(p.Key)).happened.expired && s.is(expiredPolls)
}

// cutWhileWaiting applies the bugs of a waiter whose connection has broken: it leaves a goroutine, gives up, or is
// parked if another waiter of the client queues again.
func (c *client) cutWhileWaiting(ctx context.Context, p *place) error {
	switch {
	case c.is("cut wait leaves a goroutine"):
		go func() { <-c.server.stop }()
	case time.Since(p.since) > 3*time.Second && (c.is("waiter of more than 3 seconds gives up when it is cut") ||
		p.Shared && c.is(readerGivesUp)):
		return fmt.Errorf("%w: connection reset", backend.ErrUnavailable)
	case c.is("one waiter of a client queues again after a cut"):
		if _, another := c.again.LoadOrStore(c.contact.cuts.Load(), true); another {
			select {
			case <-ctx.Done():
			case <-c.done:
			}
		}
	}
	return nil
}
