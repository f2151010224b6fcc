package conformance

import (
	"slices"

	"github.com/anylock/lock/backend"
)

// A Claim is a promise in a store's Guarantees that only a fault, or another process, can test.
type Claim struct {
	Field string // as in "Guarantees.Fencing"
	Text  string // the claim, in a sentence
	// the hook that a check of the claim lacks, as in "Harness.RestartEmpty"; empty if the check was skipped for another
	// reason
	Missing string
	Reason  string // as in "not proven: needs Harness.RestartEmpty"
}

// claims lists what stores may promise. A claim is proven by all of its checks together. A store inside one process
// (ReachProcess) ends with its clients, so claims about server failures and other processes do not apply to it.
var claims = []struct {
	field, text string
	made        func(g backend.Guarantees) bool
	checks      []string
}{
	{"Guarantees.Fencing", "the order of tokens survives a restart of the store, or of every process where " +
		"there is no server",
		func(g backend.Guarantees) bool { return g.Fencing >= backend.FencingRestart }, []string{"TokensSurviveRestart"}},
	{"Guarantees.Fencing", "the order of tokens survives a loss of the store's data",
		func(g backend.Guarantees) bool { return g.Fencing >= backend.FencingLoss }, []string{"TokensSurviveEmptying"}},
	{"Guarantees.Consistency", "leases are linearizable, also while the store fails and comes back",
		func(g backend.Guarantees) bool { return g.Consistency == backend.Linearizable && beyondProcess(g) },
		[]string{"HistoryUnderOutages"}},
	{"Guarantees.EarlyLoss", "no live lease is dropped, by a restart of the store either",
		func(g backend.Guarantees) bool { return g.EarlyLoss == "" && beyondProcess(g) }, []string{"RestartKeepsLeases"}},
	{"Guarantees.ReportsLoss", "a holder learns at once that somebody else has removed its lease",
		func(g backend.Guarantees) bool { return g.ReportsLoss }, []string{"RemovedHolderIsNotified"}},
	{"Guarantees.Reach", "processes of one host exclude each other",
		func(g backend.Guarantees) bool { return g.Reach == backend.ReachHost }, []string{"ProcessesExclude"}},
	{"Guarantees.Reach", "processes exclude each other that reach the store through a network",
		func(g backend.Guarantees) bool { return g.Reach == backend.ReachNetwork },
		[]string{"ProcessesExclude", "PartitionLosesBeforeNext"}},
	{"Guarantees.Shared",
		"shared leases exclude exclusive ones alone, end each by itself, and pass no exclusive request that waits",
		func(g backend.Guarantees) bool { return g.Shared },
		[]string{"ReadersExcludeWriter", "WriterExcludesReaders", "DeadReaderEndsByOwnTTL", "ReleaseEndsOneReader",
			"NoReaderPassesWaitingWriter"}},
	{"Guarantees.Shared", "a reader or waiting writer whose process was killed keeps nobody out for long",
		func(g backend.Guarantees) bool { return g.Shared && beyondProcess(g) }, []string{"KilledReaderFreesKey",
			"KilledWriterFreesReaders"}},
	{"Guarantees.MaxLate", "the key of a process that was killed is free by the TTL and MaxLate",
		beyondProcess, []string{"KilledHolderFreesKey"}},
	{"Guarantees.EnforcedBy", "no client's wall clock ends a lease, or keeps one",
		beyondProcess, []string{"WrongClockEndsNothingEarly"}},
	{"Guarantees.EnforcedBy", "no step of a wall clock moves the end of a lease, unless EnforcedBy or EarlyLoss says so",
		func(backend.Guarantees) bool { return true }, []string{"SteppedClockEndsNoLease", "SteppedClockKeepsNoDeadHolder"}},
}

// beyondProcess reports whether several processes can use the store, so that a client may fail while the store and
// other clients continue.
func beyondProcess(g backend.Guarantees) bool { return g.Reach > backend.ReachProcess }

// Unproven returns the claims of g that have not been tested. Either h lacks a hook, or Harness.Skip excludes a check,
// or a check in results has skipped itself. Such a claim is neither proven nor disproven.
func Unproven(g backend.Guarantees, h Harness, results ...Result) (open []Claim) {
	for _, c := range claims {
		if !c.made(g) {
			continue
		}
		for _, name := range c.checks {
			if missing, reason := untested(name, g, h, results); reason != "" {
				open = append(open, Claim{Field: c.field, Text: c.text, Missing: missing, Reason: "not proven: " + reason})
				break
			}
		}
	}
	return open
}

// untested returns why the named check tests nothing, or an empty reason if it tests its claim. missing is the hook
// that the check lacks, if that is the reason.
func untested(name string, g backend.Guarantees, h Harness, results []Result) (missing, reason string) {
	checks := Checks()
	check := checks[slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })]
	if n := check.Unmet(g, h); n != nil {
		return n.Missing, "needs " + n.Missing
	}
	if _, left := h.Skip[name]; left {
		return "Harness.Skip", "Harness.Skip leaves out " + name
	}
	i := slices.IndexFunc(results, func(r Result) bool { return r.Name == name && r.Status == Skip })
	switch {
	case i < 0:
		return "", ""
	case results[i].Missing != "":
		return results[i].Missing, "needs " + results[i].Missing
	}
	return "", name + " was skipped: " + results[i].Output
}
