package conformance_test

import "time"

// silentStoreMutants are stores without timers.
var silentStoreMutants = []mutant{
	{endsAtRequest, "SilentStoreEndsLeases"},
	{readersEndAtRequest, "SilentStoreEndsLeases"},
}

const (
	endsAtRequest       = "expired lease ends at the next request, of anybody"
	readersEndAtRequest = "expired reader ends at the next request, of anybody"
)

// atRequest returns serve, preceded by the end of all expired leases, if a bug makes the store look for them only then.
func (s *server) atRequest(serve func()) func() {
	if !s.is(endsAtRequest, readersEndAtRequest) {
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
