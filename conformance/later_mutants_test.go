package conformance_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
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
