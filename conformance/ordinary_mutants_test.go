package conformance_test

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	inspectWhole   = "Inspect returns the whole TTL"
	readerWhole    = "Inspect returns the whole TTL of a reader's grant"
	renewalOfAll   = "renewal prolongs the other leases of its client"
	sweepsByKey    = "sweep ends whoever holds the keys that it has found expired"
	tokenCache     = "tokens of all but the last 1000 keys are forgotten"
	leaseCache     = "lease is dropped when 2000 other keys were granted"
	waiterCache    = "waiter is forgotten when 2000 other keys were granted"
	keepsInspected = "store keeps a record of each inspected key"
	inspectLeaks   = "Inspect without an answer keeps a connection until Close"
	batchLeaks     = "batch without an answer keeps a connection until Close"
	waitLeaks      = "wait without an answer keeps a connection until Close"
	tokenFirst     = "attempt draws its token, then takes the key"
	openEnds       = "client ends with the context that it was opened with"
	lateWaiter     = "waiter that comes 100 ms after an expiry that nobody has noticed is parked"
)

// ordinaryMutants are bugs that an author of a store makes without any contrivance: one timer or session for all leases
// of a client, sweeps and caches, forgotten connections, and wrong contexts.
var ordinaryMutants = []mutant{
	{inspectWhole, "InspectReturnsHolder"},
	{readerWhole, "InspectReturnsHolder"},
	{renewalOfAll, "LeasesOfOneClientAreSeparate"},
	{sweepsByKey, "TTLNotLate"},
	{tokenCache, "QueuesAreSeparate"},
	{leaseCache, "QueuesAreSeparate"},
	{waiterCache, "QueuesAreSeparate"},
	{keepsInspected, "StoreForgetsEndedLeases"},
	{inspectLeaks, "EndedCallsLeaveNoConnection"},
	{batchLeaks, "EndedCallsLeaveNoConnection"},
	{waitLeaks, "EndedCallsLeaveNoConnection"},
	{tokenFirst, "ManyInFlight"},
	{openEnds, "CancelledAfterGrant"},
	{lateWaiter, "WaiterGetsExpiredKey"},
}

// prolongsAll makes every lease of e's client end as late as that of e, as a bug.
func (s *server) prolongsAll(e *entry) {
	if !s.is(renewalOfAll) {
		return
	}
	for _, other := range s.keys {
		if other != e && other.owner != "" && other.client == e.client && other.expires.Before(e.expires) {
			other.expires = e.expires
		}
	}
}

// sweepsLate finds the expired leases ten times a second, and ends the leases of their keys a moment later, as a bug.
func (s *server) sweepsLate() {
	const pause, later = 80 * time.Millisecond, 20 * time.Millisecond
	if !s.is(sweepsByKey) {
		return
	}
	go func() {
		for {
			select {
			case <-s.stop:
				return
			case <-time.After(pause):
			}
			found := s.expiredKeys()
			time.Sleep(later) // sleeps: another request may be served meanwhile
			for _, key := range found {
				s.endsAny(key)
			}
		}
	}()
}

// expiredKeys returns the keys whose leases have expired, and which nobody has requested since.
func (s *server) expiredKeys() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		if e.owner != "" && !time.Now().Before(e.expires) {
			keys = append(keys, key)
		}
	}
	return keys
}

// grantsNumber counts the grant of e, for bugs of caches.
func (s *server) grantsNumber(key string, e *entry) {
	const cached = 1000
	if last := e.happened.number; last > 0 && s.grants-last > cached {
		s.forgetsToken(tokenCache, key)
	}
	s.grants++
	e.happened.number = s.grants
}

// dropsOldest ends the lease of e, or removes the waiters for its key, as a bug, if many keys were granted since.
func (s *server) dropsOldest(e *entry, now time.Time) {
	const cached = 2000
	if e.owner == "" || s.grants-e.happened.number <= cached {
		return
	}
	if s.is(leaseCache) {
		e.expires = now
	}
	if s.is(waiterCache) {
		e.queue = nil
	}
}

// parksLate reports whether a waiter for the key of e is parked, as a bug, because its lease expired a while ago and
// nobody has noticed.
func (s *server) parksLate(e *entry, r backend.Request, now time.Time) bool {
	const late = 100 * time.Millisecond
	return r.Wait && e.owner != "" && now.Sub(e.expires) > late && s.is(lateWaiter)
}

// drawsEarly returns the token of an attempt that takes the key by a later request, as a bug, or 0.
func (s *server) drawsEarly(key string, r backend.Request, c *client) (token uint64) {
	if r.Shared || !s.is(tokenFirst) {
		return 0
	}
	token = s.nextToken(key, c)
	if s.oneIn(3) {
		s.meets(time.Millisecond)
	}
	return token
}

// opened returns c. As a bug, c is closed when ctx ends.
func (c *client) opened(ctx context.Context) *client {
	if c.is(openEnds) {
		context.AfterFunc(ctx, func() { _ = c.Close() })
	}
	if c.is(openDeadline) {
		c.until, _ = ctx.Deadline()
	}
	return c
}
