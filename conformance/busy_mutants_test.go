package conformance_test

import (
	"context"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// busyMutants are bugs in the errors of failed requests, of a full store, of a client that holds MaxLeases leases, and
// in the turns of waiters that do not respond.
var busyMutants = []mutant{
	{"ended wait does not report that the key is busy", "EndedWaitReportsBusy"},
	{"wait past its deadline does not report that the key is busy", "EndedWaitReportsBusy"},
	{"cancelled wait is ErrHeld", "EndedWaitReportsBusy"},
	{"hanging store is reported as busy", "PartitionHonoursContext"},
	{"hanging store is reported as busy", "FrozenStoreHonoursContext"},
	{"own limit is reported as a context's", "OwnLimitIsUnavailable"},
	{"own limit is an error of no kind", "OwnLimitIsUnavailable"},
	{"own limit is reported as busy", "OwnLimitIsUnavailable"},

	{"full store refuses renewals", "FullStoreKeepsLeases"},
	{"full store refuses releases", "FullStoreKeepsLeases"},
	{"full store does not renew what it grants", "FullStoreKeepsLeases"},
	{"full store calls free keys busy", "FullStoreKeepsLeases"},

	{"one lease less than MaxLeases", "MaxLeasesAreGranted"},
	{"one more than MaxLeases is busy", "MaxLeasesAreGranted"},
	{"wait beside MaxLeases fails at once", "MaxLeasesAreGranted"},
	{resumeCounts, "MaxLeasesAreGranted"},
	{resumeCountsExpired, "MaxLeasesAreGranted"},

	{"turn of a frozen waiter lasts for seconds", "FrozenWaitersDelayNextBriefly"},
	{"waiter asks again under an owner that is being given back", "LateTurnIsOneLease"},
	{"deadline counts from the answer", "LateTurnIsOneLease"},
	{"waiter whose turn came too late waits for ever", "LateTurnIsOneLease"},
}

// endOfWait returns the error of a wait for a busy key whose context has ended.
func (c *client) endOfWait(ctx context.Context) error {
	switch {
	case c.is("cancelled wait is ErrHeld"):
		return backend.ErrHeld
	case c.is("ended wait does not report that the key is busy"),
		c.is("wait past its deadline does not report that the key is busy") && ctx.Err() == context.DeadlineExceeded:
		return kit.ContextError(ctx, nil)
	}
	return kit.ContextError(ctx, backend.ErrHeld)
}

// ownLimit returns the error of a request that the client has timed out.
func (c *client) ownLimit() error {
	switch {
	case c.is("own limit is reported as a context's"):
		return context.DeadlineExceeded
	case c.is("own limit is an error of no kind"):
		return fmt.Errorf("no answer in %v", wirePatience)
	case c.is("own limit is reported as busy"):
		return fmt.Errorf("%w: no answer in %v, %w", backend.ErrUnavailable, wirePatience, backend.ErrHeld)
	}
	return fmt.Errorf("%w: no answer in %v", backend.ErrUnavailable, wirePatience)
}

var errFull = fmt.Errorf("%w: out of memory", backend.ErrUnavailable)

// fill makes the server refuse new leases until empty is called.
func (s *server) fill() (empty func()) {
	set := func(full bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.full = full
	}
	set(true)
	return func() { set(false) }
}

// refusal returns the error with which a full server replies to a request, or nil. request is "attempt", "renewal" or
// "release".
func (s *server) refusal(key, request string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(s.name(key))
	switch {
	case !s.full:
	case request == "attempt" && s.is("full store calls free keys busy"):
		return backend.ErrHeld
	case request == "attempt" && s.is("full store does not renew what it grants"):
		e.late = true
	case request == "attempt",
		request == "renewal" && (e.late || s.is("full store refuses renewals") ||
			len(e.readers) > 0 && s.is("full store refuses renewals of readers")),
		request == "release" && s.is("full store refuses releases"):
		return errFull
	}
	return nil
}

// mostLeases is the MaxLeases of a client with a limit.
const mostLeases = 6

// turn waits until the client may hold one more lease, or returns an error if it may not. The caller calls done with
// the lease, or with nil if the attempt failed. A failed attempt no longer counts, even if the server grants it later.
func (c *client) turn(ctx context.Context, owner string, wait bool) (done func(*kit.Life), err error) {
	most := c.Guarantees().MaxLeases
	if c.is("one lease less than MaxLeases") {
		most--
	}
	for ; most > 0 && !c.server.takes(c, owner, most); time.Sleep(time.Millisecond) {
		switch {
		case c.is("one more than MaxLeases is busy"):
			return nil, backend.ErrHeld
		case !wait || c.is("wait beside MaxLeases fails at once"):
			return nil, fmt.Errorf("%w: all of %d leases are held", backend.ErrUnavailable, most)
		case c.leases.Closed() && !c.is("Close leaves a wait for its turn among MaxLeases waiting"):
			return nil, backend.ErrClosed
		case ctx.Err() != nil && c.is("cancelled wait for its turn among MaxLeases is ErrClosed"):
			return nil, backend.ErrClosed
		case ctx.Err() != nil && !c.is("wait for its turn among MaxLeases ignores its context"):
			if c.is("cancelled wait for its turn among MaxLeases takes its turn along") {
				c.server.mu.Lock()
				c.taking[owner] = true
				c.server.mu.Unlock()
			}
			return nil, kit.ContextError(ctx, nil)
		}
	}
	return func(life *kit.Life) {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		delete(c.taking, owner)
		if life != nil && most > 0 {
			c.held[owner] = life.Key()
		}
	}, nil
}

const (
	resumeCounts        = "resumed lease counts among MaxLeases for ever"
	resumeCountsExpired = "resumed lease counts among MaxLeases until it is released"
)

// countsResumed counts a resumed lease among MaxLeases, as a bug.
func (c *client) countsResumed(life *kit.Life) {
	if !c.is(resumeCounts, resumeCountsExpired) {
		return
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.taking == nil {
		c.taking, c.held = make(map[string]bool), make(map[string]string)
	}
	c.taking[life.Owner()] = true
}

// forgetsResumed ends the count of a released lease, if it was counted until then.
func (c *client) forgetsResumed(life *kit.Life) {
	if c.is(resumeCountsExpired) {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		delete(c.taking, life.Owner())
	}
}

// takes reports whether c holds fewer than most leases. If so, it counts one more attempt, by owner.
func (s *server) takes(c *client, owner string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(c.taking)
	for owner, key := range c.held {
		e := s.entryLocked(s.name(key))
		if e.brokenOwner == owner && s.is("broken lease counts among MaxLeases") {
			n++
			continue
		}
		if e.reader(owner) != nil && s.is(readersUncounted) {
			continue
		}
		if e.reader(owner) == nil && (e.owner != owner || !time.Now().Before(e.expires)) {
			delete(c.held, owner)
			continue
		}
		n++
	}
	if n >= most {
		return false
	}
	if c.taking == nil {
		c.taking, c.held = make(map[string]bool), make(map[string]string)
	}
	c.taking[owner] = true
	return true
}
