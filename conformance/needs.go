package conformance

import (
	"slices"
	"strings"

	"github.com/anylock/lock/backend"
)

// A Need is a condition under which a check applies.
type Need struct {
	// Missing names what is missing if the need is not met: a guarantee, as in "Guarantees.FIFO", a hook, as in
	// "Harness.Evict", or an optional interface, as in "backend.Resumer". Only a running suite knows whether an optional
	// interface is missing.
	Missing string
	// Reason is a sentence, as in "the store promises no order of grants (Guarantees.FIFO)".
	Reason string
	Met    func(g backend.Guarantees, h Harness) bool
}

// Guarantee reports whether n requires a guarantee of the store, rather than a hook of the harness.
func (n Need) Guarantee() bool { return strings.HasPrefix(n.Missing, "Guarantees.") }

var (
	needsFIFO = Need{"Guarantees.FIFO",
		"the store promises no order of grants (Guarantees.FIFO)",
		func(g backend.Guarantees, _ Harness) bool { return g.FIFO }}
	needsTokens = Need{"Guarantees.Fencing",
		"the store gives no tokens (Guarantees.Fencing)",
		func(g backend.Guarantees, _ Harness) bool { return g.Fencing > backend.FencingNone }}
	needsRestartTokens = Need{"Guarantees.Fencing",
		"the order of tokens does not survive a restart (Guarantees.Fencing)",
		func(g backend.Guarantees, _ Harness) bool { return g.Fencing >= backend.FencingRestart }}
	needsLossTokens = Need{"Guarantees.Fencing",
		"the order of tokens does not survive a loss of data (Guarantees.Fencing)",
		func(g backend.Guarantees, _ Harness) bool { return g.Fencing >= backend.FencingLoss }}
	needsPush = Need{"Guarantees.Wake",
		"waiters poll (Guarantees.Wake)",
		func(g backend.Guarantees, _ Harness) bool { return g.Wake == backend.WakePush }}
	needsNoEarlyLoss = Need{"Guarantees.EarlyLoss",
		"the store may drop live leases (Guarantees.EarlyLoss)",
		func(g backend.Guarantees, _ Harness) bool { return g.EarlyLoss == "" }}
	needsReportsLoss = Need{"Guarantees.ReportsLoss",
		"a holder whose lease is removed learns of it when it renews (Guarantees.ReportsLoss)",
		func(g backend.Guarantees, _ Harness) bool { return g.ReportsLoss }}
	needsEvict = Need{"Harness.Evict",
		"the harness has no Evict hook",
		func(_ backend.Guarantees, h Harness) bool { return h.Evict != nil }}
	needsFreeze = Need{"Harness.Freeze",
		"the harness has no Freeze and Thaw hooks",
		func(_ backend.Guarantees, h Harness) bool { return h.Freeze != nil && h.Thaw != nil }}
	needsRestart = Need{"Harness.Restart",
		"the harness has no Restart hook",
		func(_ backend.Guarantees, h Harness) bool { return h.Restart != nil }}
	needsRestartEmpty = Need{"Harness.RestartEmpty",
		"the harness has no RestartEmpty hook",
		func(_ backend.Guarantees, h Harness) bool { return h.RestartEmpty != nil }}
	needsLinked = Need{"Harness.Linked",
		"the harness has no Linked hook (clients behind a link that can be cut: package conformance/link)",
		func(_ backend.Guarantees, h Harness) bool { return h.Linked != nil }}
	needsProcess = Need{"Harness.Process",
		"the harness has no Process hook (another process to be frozen and killed: package conformance/process)",
		func(_ backend.Guarantees, h Harness) bool { return h.Process != nil }}
	needsMembers = Need{"Harness.Members",
		"the harness has no Members (a cluster whose servers can fail one by one)",
		func(_ backend.Guarantees, h Harness) bool { return len(h.Members) > 0 }}
	needsFreezing = Need{"Member.Freeze",
		"no member of the cluster can be frozen (Member.Freeze)",
		func(_ backend.Guarantees, h Harness) bool {
			return !slices.ContainsFunc(h.Members, func(m Member) bool { return m.Freeze == nil || m.Thaw == nil })
		}}
	needsEmptying = Need{"Member.StartEmpty",
		"no member of the cluster can be emptied (Member.StartEmpty)",
		func(_ backend.Guarantees, h Harness) bool {
			return !slices.ContainsFunc(h.Members, func(m Member) bool { return m.StartEmpty == nil })
		}}
	needsFill = Need{"Harness.Fill",
		"the harness has no Fill hook (a store that has no room for more)",
		func(_ backend.Guarantees, h Harness) bool { return h.Fill != nil }}
	needsFootprint = Need{"Harness.Footprint",
		"the harness has no Footprint hook (how many records the store keeps)",
		func(_ backend.Guarantees, h Harness) bool { return h.Footprint != nil }}
	needsStepClock = Need{"Harness.StepClock",
		"the harness has no StepClock hook (a step of the servers' wall clock)",
		func(_ backend.Guarantees, h Harness) bool { return h.StepClock != nil }}
	needsMaxLeases = Need{"Guarantees.MaxLeases",
		"a client can hold any number of leases (Guarantees.MaxLeases)",
		func(g backend.Guarantees, _ Harness) bool { return g.MaxLeases > 0 }}
	needsCut = Need{"Harness.Cut",
		"the harness has neither a Cut hook nor a Linked hook",
		func(_ backend.Guarantees, h Harness) bool { return h.Cut != nil || h.Linked != nil }}
)

// Unmet returns the first need of c that is not met, or nil if c applies.
func (c Check) Unmet(g backend.Guarantees, h Harness) *Need {
	for _, n := range c.Needs {
		if !n.Met(g, h) {
			return &n
		}
	}
	return nil
}
