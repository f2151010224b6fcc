package conformance_test

import (
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// originMutants are bugs in which the history of a lease changes how its requests are served: which lease came before
// it, and what has happened to it since.
var originMutants = []mutant{
	{"lease after a Break keeps the end of the broken one", "LeasesAreAlike"},
	{"waiter has the rest of a broken lease's time", "LeasesAreAlike"},
	{"timer of a broken lease ends the next one, which others wait for", "LeasesAreAlike"},
	{"timer of the time before Resume ends the lease, which others wait for", "LeasesAreAlike"},
	{"key whose lease was broken is refused for half a second", "LeasesAreAlike"},
	{"waiter that leaves after a Break takes the next along", "LeasesAreAlike"},
	{"shared attempt passes a waiting writer after a Break", "LeasesAreAlike"},
	{"break finds no renewed lease that was waited for", "LeasesAreAlike"},
	{"writer keeps the end of the readers before it", "LeasesAreAlike"},
	{"break finds no resumed lease", "LeasesAreAlike"},
	{"break finds no reader that had waited", "LeasesAreAlike"},
	{"break of a released lease succeeds", "LeasesAreAlike"},
	{"break of an expired lease succeeds", "LeasesAreAlike"},
	{"list leaves out renewed leases", "LeasesAreAlike"},
	{"list leaves out resumed leases", "LeasesAreAlike"},
	{"list leaves out keys that were broken before", "LeasesAreAlike"},
	{"resume finds no lease that was waited for", "LeasesAreAlike"},
	{"resume finds no renewed lease of its own client", "LeasesAreAlike"},
	{"resume finds no lease that two wait for", "LeasesAreAlike"},
	{"resume finds no lease after its first TTL", "LeasesAreAlike"},
	{"resume of a renewed lease never shortens", "LeasesAreAlike"},
	{"resume revives a broken lease", "LeasesAreAlike"},

	{"list leaves out leases over a day", "ListReturnsHeldKeys"},
	{"break finds no owner over 128 bytes", "BreakEndsOneLease"},
	{"break finds no key over 255 bytes", "OddKeysAreServed"},
	{"resume finds no key with %", "OddKeysAreServed"},
	{"renewal of a key over 255 bytes does nothing", "OddKeysAreServed"},
	{"resume cuts a TTL to seconds", "OddTTLsAreKept"},
	{"resume is for an hour at most", "OddTTLsAreKept"},
	{"resume finds no lease after a restart", "RestartKeepsOddKeys"},
	{"restart brings a broken lease back", "RestartEndsDeadLeases"},
	{"restart puts a resumed lease back to its first TTL", "RestartEndsDeadLeases"},
}

// grantedAfter applies the bugs of a lease that has just been granted. The lease before it would have expired at end.
func (s *server) grantedAfter(e *entry, r backend.Request, end time.Time) {
	e.brokenBefore, e.wasBroken = e.wasBroken, false
	switch later := end.After(e.expires); {
	case !e.brokenBefore:
	case later && s.is("lease after a Break keeps the end of the broken one"),
		r.Wait && s.is("waiter has the rest of a broken lease's time"):
		e.expires = end
	}
}

// endsOthers ends whichever lease e has at the time at, if others wait then and the store has the bug.
func (s *server) endsOthers(bug, key string, e *entry, at time.Time) {
	if !s.is(bug) {
		return
	}
	time.AfterFunc(time.Until(at), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.owner != "" && len(e.queue) > 0 {
			s.endLocked(key, e)
		}
	})
}

// breakDiffers applies the bugs of a Break of owner. differs reports whether a bug sets the result, which is done.
func (s *server) breakDiffers(key string, e *entry, owner string) (done, differs bool) {
	r := e.reader(owner)
	switch holds := e.owner == owner; {
	case holds && e.waited && !e.renewed.IsZero() && s.is("break finds no renewed lease that was waited for"),
		holds && e.resumedBy != nil && s.is("break finds no resumed lease"),
		holds && e.restored && s.is(breaksNoRestored),
		holds && e.client != nil && e.client.events.remote && s.is(processUnbroken),
		holds && e.client != nil && e.client.leases.Closed() && s.is(breaksNoClosed),
		r != nil && r.waited && s.is("break finds no reader that had waited"),
		len(owner) > 128 && s.is("break finds no owner over 128 bytes"),
		len(key) > 255 && s.is("break finds no key over 255 bytes"):
		return false, true
	case !holds && e.gaveUp == owner && s.is("break of a released lease succeeds"),
		!holds && e.last == owner && s.is("break of an expired lease succeeds"):
		return true, true
	case holds && len(e.queue) == 0 && s.is("key whose lease was broken is refused for half a second"):
		e.owner, e.client, e.expires = "broken", nil, time.Now().Add(500*time.Millisecond)
		return true, true
	}
	return false, false
}

// unlisted reports whether a list omits e, as a bug.
func (s *server) unlisted(e *entry) bool {
	if e.client != nil && e.client.events.remote && s.is(processUnlisted) {
		return true
	}
	return e.owner != "" && (!e.renewed.IsZero() && s.is("list leaves out renewed leases") ||
		e.resumedBy != nil && s.is("list leaves out resumed leases") ||
		e.restored && s.is("list leaves out leases from before a restart") ||
		e.client != nil && e.client.leases.Closed() && s.is(listsNoClosed) ||
		e.broken && s.is("list leaves out keys that were broken before") ||
		e.ttl > 24*time.Hour && s.is("list leaves out leases over a day"))
}

// missesResumed reports whether Resume by the holder finds no lease, as a bug.
func (s *server) missesResumed(e *entry, c *client, r backend.Request) bool {
	return e.waited && s.is("resume finds no lease that was waited for") ||
		e.client == c && !e.renewed.IsZero() && s.is("resume finds no renewed lease of its own client") ||
		len(e.queue) > 1 && s.is("resume finds no lease that two wait for") ||
		time.Since(e.granted) > e.ttl && s.is("resume finds no lease after its first TTL") ||
		e.restored && s.is("resume finds no lease after a restart") ||
		slices.Contains([]byte(r.Key), '%') && s.is("resume finds no key with %")
}

// resumedTTL returns the TTL to which r extends the lease of e.
func (s *server) resumedTTL(e *entry, r backend.Request) time.Duration {
	left := time.Until(e.expires)
	switch {
	case r.TTL > time.Second && s.is("resume cuts a TTL to seconds"):
		return r.TTL.Truncate(time.Second)
	case s.is("resume is for an hour at most"):
		return min(r.TTL, time.Hour)
	case !e.renewed.IsZero() && s.is("resume of a renewed lease never shortens"):
		return max(r.TTL, left)
	}
	return r.TTL
}

// restartDiffers applies the bugs of a restart to the lease of e. It reports whether there was one.
func (s *server) restartDiffers(key string, e *entry) bool {
	end, now := e.granted.Add(e.ttl), time.Now()
	switch {
	case e.owner == "" && e.broken && e.brokenOwner != "" && end.After(now) && s.is("restart brings a broken lease back"):
		e.owner, e.expires = e.brokenOwner, end
	case e.owner != "" && e.resumedBy != nil && s.is("restart puts a resumed lease back to its first TTL"):
		e.expires = end
	case s.is("restart begins readers anew"):
		for _, r := range e.readers {
			s.extendReader(key, e, r, now.Add(r.ttl))
		}
	case s.is("restart gives readers one token"):
		for _, r := range e.readers {
			r.token = e.readers[0].token
		}
	default:
		return false
	}
	return true
}
