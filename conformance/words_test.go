package conformance_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/conformance"
)

// doubleGrants are mutants whose check sees two owners of a key at once, and must report a double grant. The list omits
// races that may end otherwise, and checks that may see another problem first.
var doubleGrants = []mutant{
	{"each client has a store of its own", "ClientsShareStore"},
	{"re-entrant per client", "OwnersOfOneClientExclude"},
	{"re-entrant per client", "ExclusiveInOneClient"},
	{"no exclusion", "ExclusiveAcrossClients"},
	{"acquire checks, then sets", "OneAttemptWins"},
	{"acquire checks, then sets, above 48 in flight", "ManyInFlight"},
	{"lease ends after 9/10 of its TTL", "ExclusiveUnderExpiry"},
	{"lease ends after 9/10 of its TTL", "TTLNotEarly"},
	{"TTL over 10 s is cut, and Inspect returns none", "OddTTLsAreKept"},
	{"renewal below MinTTL is kept as asked", "TinyRenewalsAreRoundedUp"},
	{"stale Release is sent without owner", "StaleReleaseSparesNewHolder"},
	{"Release ends every lease of the client", "LeasesOfOneClientAreSeparate"},
	{"attempt knows its owner by a prefix", "OwnersThatLookAlike"},
	{"attempt looks for its owner in the holder's", "OwnersThatLookAlike"},
	{"owners are alike in any case", "OwnersThatLookAlike"},
	{"owners are trimmed of blanks", "OwnersThatLookAlike"},
	{"owners are numbers", "OwnersThatLookAlike"},
	{"owners are cut at 64 bytes", "OwnersThatLookAlike"},
	{"owners are patterns", "OwnersThatLookAlike"},
	{"release wakes who waits for the key and a NUL, too", "OddKeysAreWaitedFor"},
	{"wait for a key over 255 bytes is granted at once", "OddKeysAreWaitedFor"},
	{"context of Acquire ends the lease", "CancelledAfterGrant"},
	{"restart drops leases", "RestartKeepsLeases"},
	{"restart puts leases back to their first TTL", "RestartKeepsLeases"},
	{"restart begins leases anew for their first TTL", "RestartKeepsLeases"},
	{"deadline counts from the answer", "LateAnswerCountsFromSending"},
	{"deadline counts from the answer", "SlowLinkServes"},
	{"batch's deadline counts from the answer", "LateAnswerCountsFromSending"},
	{"unanswered shorter batch is not counted", "LateShorterRenewIsCounted"},
	{"release compares, then frees", "SlowReleaseSparesNext"},
	{"unanswered shorter renewal is not counted", "LateShorterRenewIsCounted"},
	{"no exclusion", "LateAcquireLeavesNothing"},
	{"other processes have a store of their own", "ProcessesExclude"},
	{"lease is over by the clock of who asks", "WrongClockEndsNothingEarly"},
	{"lease ends by its holder's clock", "WrongClockEndsNothingEarly"},
	{"step of the clock forward ends leases, and nobody says so", "SteppedClockEndsNoLease"},
	{"step of the clock back ends leases", "SteppedClockEndsNoLease"},
}

// exactTexts maps mutants to the text of the error that their check must report. The check must not report a slow
// machine.
var exactTexts = map[mutant]string{
	{"wait for a key over 255 bytes fails",
		"OddKeysAreWaitedFor"}: "ended while the key was held: name too long",
	{"Close ends waits as unavailable", "CloseEndsWaiting"}: "want ErrClosed",
	{"one waiter in 10 that has waited for 100 ms gets an outage error at its turn",
		"PushIsPrompt"}: "waiting Acquire: store unavailable: connection reset",
	{"waiter whose turn comes after 200 ms gets a connection error",
		"FIFOAfterExpiry"}: "waiting Acquire: EOF",
	{"waiter whose turn comes after 200 ms gets a connection error", "HistoryUnderExpiry"}: "Acquire: EOF",
	{"waiter whose turn comes after 200 ms gets a connection error",
		"WrongClockEndsNothingEarly"}: "Acquire in another process: EOF",
}

// collides reports whether m treats different keys as one.
func (m mutant) collides() bool {
	return strings.HasPrefix(m.check, "Keys") && m.bug != "longer keys are taken" && !slices.Contains(keyMutants, m)
}

// misnamed returns what is wrong with the report of m's check, which has failed: the broken rule, or the text. It is
// empty if nothing is wrong.
func (m mutant) misnamed(r conformance.Result) string {
	broken := conformance.Result{Rule: r.Broken}.Rules()
	double := strings.Contains(r.Output, "double grant: ")
	words, exact := exactTexts[m]
	switch {
	case exact && (!strings.Contains(r.Output, words) || strings.Contains(r.Output, "the machine was slow")):
		return "it is not reported as " + words
	case double && !slices.Contains(broken, 1):
		return "a double grant is reported as the breach of another rule"
	case slices.Contains(doubleGrants, m) && !double:
		return "a double grant is not reported as one"
	case m.collides() && !slices.Contains(broken, 8):
		return "a collision of keys is reported as the breach of another rule"
	case m.collides() && !strings.Contains(r.Output, "shares a lock with the key \"") &&
		!strings.Contains(r.Output, "they are taken for one"):
		return "a collision of keys does not name both"
	}
	return ""
}

func TestDoubleGrantsAreMutants(t *testing.T) {
	for _, m := range doubleGrants {
		if !slices.Contains(mutants, m) {
			t.Errorf("there is no mutant %q of %s", m.bug, m.check)
		}
	}
}
