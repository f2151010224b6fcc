package conformance_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	heldErrorCounts  = "HeldError counts the attempt itself as a waiter"
	inspectNoTTL     = "Inspect returns no TTL of a lease that was waited for"
	listsEvicted     = "list returns keys whose leases were evicted"
	listsNoClosed    = "list leaves out leases of closed clients"
	pagesByReader    = "pages of a list are counted by readers"
	breaksNoClosed   = "break finds no lease of a closed client"
	breaksNoRestored = "break finds no lease from before a restart"
	closeStopsTimers = "Close stops the timers of leases that others wait for"
	keepsGranted     = "client keeps owners of granted waits"
	keepsWaited      = "store keeps a record of each granted wait"
	keepsLost        = "client keeps leases whose renewal is ErrLost"
	forgetsReaders   = "restart forgets readers of keys with a NUL"
	endsUnconnected  = "lease ends 30 seconds after its connection was closed"
	endsSilent       = "lease ends a minute after its client fell silent"
	endsWithContext  = "lease ends at the deadline of its Acquire's context"
	oddExpiry        = "expiry wakes nobody who waits for a key with a NUL"
	longExpiry       = "expiry wakes nobody who waits for a key over 255 bytes"
	releasesOnce     = "release that could not connect is not repeated"
	batchFewReaders  = "batch renews 200 readers at most"
	heldErrorCuts    = "HeldError cuts owners at 64 bytes"
	evictForgets     = "token is forgotten with an evicted lease that others wait for"
	keepsParked      = "store keeps a record of each reader that has waited"
	inspectShifts    = "Inspect returns the answer to one that was cancelled"
	attemptShifts    = "attempt gets the answer to one that was cancelled"
	readerBreakPolls = "break of the last reader wakes the next waiter by a timer"
	renewedPolls     = "release of a renewed lease wakes the next waiter by a timer"
	readersLate      = "expiry of a writer wakes waiting readers 3 seconds late"
	waitedWatches    = "goroutine for each lease that was waited for"
)

// laterMutants are bugs that show only later: when a client was closed, or was away for long, when the store has
// restarted, or when a wait was granted. Others are of what the store reports.
var laterMutants = []mutant{
	{heldErrorCounts, "HeldErrorNamesHolder"},
	{inspectNoTTL, "LeasesAreAlike"},
	{listsEvicted, "ListReturnsHeldKeys"},
	{listsNoClosed, "CloseEndsLeases"},
	{breaksNoClosed, "CloseEndsLeases"},
	{breaksNoRestored, "RestartKeepsOddKeys"},
	{closeStopsTimers, "CloseEndsLeases"},
	{keepsGranted, "ClientForgetsEndedLeases"},
	{keepsWaited, "StoreForgetsEndedLeases"},
	{keepsLost, "ClientForgetsEndedLeases"},
	{forgetsReaders, "RestartKeepsOddKeys"},
	{endsUnconnected, "DisconnectedHolderKeepsLease"},
	{endsSilent, "DisconnectedHolderKeepsLease"},
	{endsWithContext, "CancelledAfterGrant"},
	{oddExpiry, "WaiterGetsExpiredKey"},
	{longExpiry, "WaiterGetsExpiredKey"},
	{releasesOnce, "CancelledReleaseUnderWay"},
	{batchFewReaders, "BatchFindsLossesAnywhere"},
	{heldErrorCuts, "ExtremesAreAccepted"},
	{evictForgets, "EvictedKeyWakesWaiter"},
	{keepsParked, "StoreForgetsEndedLeases"},
	{inspectShifts, "CancelledUnderWay"},
	{attemptShifts, "CancelledUnderWay"},
	{renewedPolls, "PushIsPrompt"},
	{readersLate, "WaiterIsNotLate"},
	{waitedWatches, "LeasesCostNoGoroutines"},
}

// listByLease returns the held keys that begin with prefix, as a bug: it reads them in pages of leases, and returns a
// key once for each page on which it has readers.
func (s *server) listByLease(prefix string) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const page = 100
	var held []string
	for key, e := range s.keys {
		if strings.HasPrefix(key, prefix) && e.isHeld(time.Now()) {
			held = append(held, key)
		}
	}
	slices.Sort(held)
	read := 0
	for _, key := range held {
		for i := range max(1, len(s.keys[key].readers)) {
			if i == 0 || read%page == 0 {
				keys = append(keys, key)
			}
			read++
		}
	}
	return keys
}

// closesTimers stops the timers that end the leases of c, as a bug of Close. Such a lease ends at the next request for
// its key.
func (s *server) closesTimers(c *client) {
	if !s.is(closeStopsTimers) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		if e.client == c && e.timer != nil {
			e.timer.Stop()
		}
	}
}

// expiresUnheard reports whether the expiry of a lease of key wakes nobody, as a bug.
func (s *server) expiresUnheard(key string) bool {
	return s.is(oddExpiry) && strings.Contains(key, "\x00") || s.is(longExpiry) && len(key) > 255
}

// cutByContext returns the request that a client sends for r. As a bug, its TTL ends with ctx.
func (c *client) cutByContext(ctx context.Context, r backend.Request) backend.Request {
	if end, ok := ctx.Deadline(); ok && c.is(endsWithContext) {
		r.TTL = max(shortest, min(r.TTL, time.Until(end)))
	}
	return r
}

// watchesWaited starts a goroutine that lives as long as the lease of r, which was waited for, as a bug.
func (c *client) watchesWaited(r backend.Request) {
	if !c.is(waitedWatches) {
		return
	}
	go func() {
		for !c.leases.Closed() && c.server.inspect(r.Key).Owner == r.Owner {
			time.Sleep(50 * time.Millisecond) // sleeps: before it looks again
		}
	}()
}

// skipsReader reports whether a batch renews nothing of l, because of the leases before it, as a bug.
func (c *client) skipsReader(before []*kit.Life, l *kit.Life) bool {
	const most = 200
	if l.Shared() && c.is(batchHundred) && sharers(before, l.Key()) >= 100 {
		return true
	}
	if !l.Shared() || !c.is(batchFewReaders) {
		return false
	}
	readers := 0
	for _, other := range before {
		if other.Shared() {
			readers++
		}
	}
	return readers >= most
}

// A shifted has the answers that a client has not read, as a bug: a call gets the oldest, which may be that to a call
// that was cancelled. client.mu guards it.
type shifted struct {
	holders []backend.Holder
	answers []answer
}

// nextHolder is askHolder for a client that takes the oldest answer, as a bug.
func (c *client) nextHolder(ctx context.Context, key string) (h backend.Holder, err error) {
	if err := c.do(ctx, func() {
		found := c.server.inspect(key)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.shifted.holders = append(c.shifted.holders, found)
	}); err != nil {
		return h, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h, c.shifted.holders = c.shifted.holders[0], c.shifted.holders[1:]
	return h, nil
}

// reads records the answer to an attempt, for a client that takes the oldest answer, as a bug.
func (c *client) reads(a answer) {
	if c.is(attemptShifts) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.shifted.answers = append(c.shifted.answers, a)
	}
}

// nextAnswer returns the answer to an attempt: a, or the oldest, as a bug.
func (c *client) nextAnswer(a answer) answer {
	if !c.is(attemptShifts) {
		return a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, c.shifted.answers = c.shifted.answers[0], c.shifted.answers[1:]
	return a
}
