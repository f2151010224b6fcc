package conformance_test

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	takesOverLate  = "attempts that meet an expired lease check, then set"
	refusesRivals  = "attempts at the same moment refuse each other"
	triesAgain     = "attempt tries again for 150 ms before it is refused"
	readerTries    = "attempt of a reader tries again for 150 ms before it is refused"
	opensTwice     = "opens that meet create a store each"
	opensFail      = "open that meets the first one fails"
	opensEmptied   = "opens that meet when the store was emptied create a store each"
	copiesAttempt  = "copy of an attempt on a dead connection counts when it comes late"
	copiesWait     = "copy of an attempt that waits on a dead connection counts when it comes late"
	copiesBusy     = "copy on a dead connection is forgotten when the key was busy, and counts when it comes late"
	readerProlongs = "refused attempt of a reader prolongs the writer's lease"
	readerReplaces = "refused attempt of a reader replaces the writer's TTL"
	listProlongs   = "list prolongs the leases that it returns"
)

// attemptMutants are bugs of attempts that meet others, of first opens, and of refusals.
var attemptMutants = []mutant{
	{takesOverLate, "OneAttemptWins"},
	{refusesRivals, "OneAttemptWins"},
	{triesAgain, "AttemptDoesNotWait"},
	{readerTries, "AttemptDoesNotWait"},
	{opensTwice, "ClientsShareStore"},
	{opensFail, "ClientsShareStore"},
	{opensEmptied, "EmptiedStoreServes"},
	{copiesAttempt, "StrandedRequestChangesNothing"},
	{copiesWait, "StrandedRequestChangesNothing"},
	{copiesBusy, "StrandedRequestChangesNothing"},
	{readerProlongs, "RefusedAttemptsProlongNothing"},
	{readerReplaces, "RefusedAttemptChangesNothing"},
	{listProlongs, "RefusedAttemptsProlongNothing"},
}

// meets sleeps with the server unlocked, so that other requests may be served meanwhile.
func (s *server) meets(others time.Duration) {
	s.mu.Unlock()
	time.Sleep(others) // sleeps: while other requests are served; in fake time
	s.mu.Lock()
}

// takesOver grants r a key whose lease has expired, and which nobody waits for, a moment later and in any case, as a
// bug. It reports whether it did.
func (s *server) takesOver(
	key string, e *entry, r backend.Request, c *client, now time.Time,
) (g granted, took bool) {
	if r.Wait || r.Shared || e.owner == "" || now.Before(e.expires) || len(e.queue) > 0 || !s.is(takesOverLate) {
		return g, false
	}
	s.meets(100 * time.Microsecond)
	return s.grantLocked(key, e, r, c, time.Now()), true
}

// meetsRivals reports whether an attempt at a free key meets another one, which refuses both, as a bug.
func (s *server) meetsRivals(e *entry, r backend.Request) (met bool) {
	if r.Wait || r.Shared || e.owner != "" || !s.is(refusesRivals) {
		return false
	}
	if e.rivals++; e.rivals > 1 {
		e.rivalsMet = true
	}
	s.meets(500 * time.Microsecond)
	met = e.rivalsMet
	if e.rivals--; e.rivals == 0 {
		e.rivalsMet = false
	}
	return met
}

// repeatsRefused reports whether a refused attempt is made again, after a pause, as a bug. n is how often it was made.
func (c *client) repeatsRefused(r backend.Request, n int) bool {
	if n > 3 || r.Wait || !(r.Shared && c.is(readerTries)) && !(!r.Shared && c.is(triesAgain)) {
		return false
	}
	time.Sleep(50 * time.Millisecond) // sleeps: before the next attempt
	return true
}

// sendsAgain reports whether an attempt that failed with err is sent again, as a bug. n is how often it was sent.
func (c *client) sendsAgain(ctx context.Context, r backend.Request, err error, n int) bool {
	if err != nil && n == 1 && c.wire != nil && ctx.Err() == nil && !errors.Is(err, errRefused) && r.Wait && !r.Shared &&
		c.is(copiesBusy) {
		c.copied.Store(r.Owner, true)
		return true
	}
	return err != nil && n == 1 && c.wire != nil && ctx.Err() == nil && !errors.Is(err, errRefused) &&
		(!r.Wait && c.is(copiesAttempt, repeatKept, repeatToken) || r.Wait && c.is(copiesWait))
}

// opensOddly opens a client with a bug of first opens, if the server has one.
func (s *server) opensOddly() (b backend.Backend, odd bool, err error) {
	if !s.is(opensTwice, opensFail, opensEmptied) {
		return nil, false, nil
	}
	s.mu.Lock()
	created, creating := s.created || s.emptied == 0 && s.is(opensEmptied), s.creating
	s.creating = true
	if !created {
		s.meets(100 * time.Microsecond)
	}
	s.created = true
	s.mu.Unlock()
	switch {
	case created || !creating:
		return nil, false, nil
	case s.is(opensFail):
		return nil, true, errors.New("the table exists already")
	}
	return newClient(newServer("")), true, nil
}

// refusesReader applies the bugs of a shared attempt that is refused because of the holder of e.
func (s *server) refusesReader(e *entry, r backend.Request, now time.Time) {
	switch {
	case e.owner == "":
	case s.is(readerProlongs):
		e.expires = e.expires.Add(100 * time.Millisecond)
	case s.is(readerReplaces):
		e.expires = now.Add(r.TTL)
	}
}
