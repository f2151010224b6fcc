package conformance

import (
	"slices"

	"github.com/anylock/lock/backend"
)

// A Claim is a promise in a store's Guarantees that only a fault, or another process, can put to the test.
type Claim struct {
	Field   string // as in "Guarantees.Fencing"
	Text    string // what is claimed, in a sentence
	Missing string // the hook that a check of it lacks, as in "Harness.RestartEmpty"
	Reason  string // as in "not proven: needs Harness.RestartEmpty"
}

// claims are what stores may promise, and the checks by which it is proven: each of them.
var claims = []struct {
	field, text string
	made        func(g backend.Guarantees) bool
	checks      []string
}{
	{"Guarantees.Fencing", "the order of tokens survives a restart of the store",
		func(g backend.Guarantees) bool { return g.Fencing == backend.FencingRestart }, []string{"TokensSurviveRestart"}},
	{"Guarantees.Fencing", "the order of tokens survives a loss of the store's data",
		func(g backend.Guarantees) bool { return g.Fencing == backend.FencingLoss }, []string{"TokensSurviveEmptying"}},
	{"Guarantees.Consistency", "leases are linearizable, also while the store fails and comes back",
		func(g backend.Guarantees) bool { return g.Consistency == backend.Linearizable }, []string{"HistoryUnderOutages"}},
	{"Guarantees.EarlyLoss", "no live lease is dropped, by a restart of the store either",
		func(g backend.Guarantees) bool { return g.EarlyLoss == "" }, []string{"RestartKeepsLeases"}},
	{"Guarantees.Reach", "processes of one host exclude each other",
		func(g backend.Guarantees) bool { return g.Reach == backend.ReachHost }, []string{"ProcessesExclude"}},
	{"Guarantees.Reach", "processes exclude each other that reach the store through a network",
		func(g backend.Guarantees) bool { return g.Reach == backend.ReachNetwork }, []string{"ProcessesExclude", "PartitionLosesBeforeNext"}},
	{"Guarantees.EnforcedBy", "no client's wall clock ends a lease, or keeps one",
		func(backend.Guarantees) bool { return true }, []string{"WrongClockEndsNothingEarly"}},
	{"Guarantees.EnforcedBy", "no step of the servers' wall clock moves the end of a lease, unless it says so",
		func(g backend.Guarantees) bool { return g.Reach == backend.ReachNetwork }, []string{"SteppedClockEndsNoLease", "SteppedClockKeepsNoDeadHolder"}},
}

// Unproven returns the claims of g that no check can test with h, because a hook is missing or Harness.Skip leaves the check out. They
// are neither proven nor disproven.
func Unproven(g backend.Guarantees, h Harness) (open []Claim) {
	checks := Checks()
	for _, c := range claims {
		if !c.made(g) || g.Reach == backend.ReachProcess { // such a store ends with its clients
			continue
		}
		for _, name := range c.checks {
			check := checks[slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })]
			missing := ""
			if n := check.Unmet(g, h); n != nil {
				missing = n.Missing
			} else if _, left := h.Skip[name]; left {
				missing = "Harness.Skip"
			}
			if missing == "" {
				continue
			}
			reason := "not proven: needs " + missing
			if missing == "Harness.Skip" {
				reason = "not proven: Harness.Skip leaves out " + name
			}
			open = append(open, Claim{Field: c.field, Text: c.text, Missing: missing, Reason: reason})
			break
		}
	}
	return open
}
