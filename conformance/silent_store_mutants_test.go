package conformance_test

import "time"

// silentStoreMutants are stores without timers, or with one that stops.
var silentStoreMutants = []mutant{
	{endsAtRequest, "SilentStoreEndsLeases"},
	{readersEndAtRequest, "SilentStoreEndsLeases"},
	{timerStops, "SilentStoreEndsLeases"},
	{shortenedEnds, "SilentStoreEndsLeases"},
}

const (
	endsAtRequest       = "expired lease ends at the next request, of anybody"
	readersEndAtRequest = "expired reader ends at the next request, of anybody"
	timerStops          = "timer stops at the end of a lease that nobody waits for, until the next request"
	shortenedEnds       = "lease that was shortened ends at the next request, of anybody"
)

// atRequest returns serve, preceded by the end of all expired leases, if a bug makes the store look for them only then.
func (s *server) atRequest(serve func()) func() {
	if !s.is(endsAtRequest, readersEndAtRequest, shortenedEnds, timerStops) {
		return serve
	}
	return func() {
		s.mu.Lock()
		now := time.Now()
		for key, e := range s.keys {
			s.expireLocked(key, e, now)
		}
		s.mu.Unlock()
		serve()
	}
}

// timerStopped reports whether a lease has expired that nobody waits for, and at which the timer has stopped, as a bug.
func (s *server) timerStopped(now time.Time) bool {
	if !s.is(timerStops) {
		return false
	}
	for _, e := range s.keys {
		if e.owner != "" && len(e.queue) == 0 && now.After(e.expires) {
			return true
		}
	}
	return false
}
