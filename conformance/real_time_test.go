package conformance_test

import (
	"slices"
	"testing"
)

const (
	raceOfThreads = "a race of threads: in a bubble, a request takes no time in which another could meet it"
	spins         = "the mutant spins, which stops the clock of a bubble"
)

// inRealTime names the mutants that a bubble does not find, with the reason.
var inRealTime = []struct{ check, bug, reason string }{
	{"CancelRacesGrant", "cancellation at the grant keeps the key", raceOfThreads},
	{"ContentionParksNobody", "waiter that leaves at its turn takes the turn along", raceOfThreads},
	{"ContentionParksNobody", "cancellation at the grant keeps the key", raceOfThreads},
	{"KilledInsideAcquire", "TTL is set by a second request", raceOfThreads},
	{"KilledInsideRelease", "release takes the TTL away first", raceOfThreads},
	{"ManyInFlight", "acquire checks, then sets, above 48 in flight", "in a bubble, the second owner is noticed by its release first"},
	{"ManyInFlight", "release above 48 in flight is missed", "a second of attempts without pause is millions of them in a bubble"},
	{"WaitingAsksSeldom", "waiter asks without pause", spins},
	{"WaitingAsksSeldom", "waiters behind the first ask without pause", spins},
	{"WaitingAsksSeldom", "waiter asks without pause once the holder's first TTL is over", spins},
	{"WaitingAsksSeldom", "waiter asks without pause after a second", spins},
	{"WaitingAsksSeldom", "holder asks after its lease without pause", spins},
}

// realTime returns the reason why m runs in real time, empty if it runs in a bubble.
func (m mutant) realTime() string {
	for _, r := range inRealTime {
		if r.check == m.check && r.bug == m.bug {
			return r.reason
		}
	}
	return ""
}

func TestMutantsInRealTimeExist(t *testing.T) {
	for _, r := range inRealTime {
		if r.reason == "" || !slices.Contains(mutants, mutant{r.bug, r.check}) {
			t.Errorf("%s: %s: no such mutant, or no reason", r.check, r.bug)
		}
	}
}
