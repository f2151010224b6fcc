package conformance

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/anylock/lock/backend"
)

// Core lists the checks of the core, in the order of [Checks]. The core finds every bug that the suite is known to
// find, with less than two thirds of the checks: the others find no further bug. It is computed from a record of which
// check finds which bug ("make evidence"). A check that is not in this record yet belongs to the core.
//
// Run the whole suite on a store's usual setup, and the core on its variants: TLS, a cluster, another release, a proxy
// in front.
func Core() []Check {
	return slices.DeleteFunc(Checks(), func(c Check) bool { return slices.Contains(beyondCore, c.Name) })
}

// RunCore is [Run] with fewer checks: those of [Core], and those that extra selects. Each of extra is the name of a
// check or of a group. Select the checks that concern what the variant changes: "members" for a cluster, "cuts" and
// "partitions" for other connections.
//
// With -short, RunCore leaves out the checks of the core that take the most processor time: sweeps over every byte of a
// request, crowds, long queues, large batches, restarts.
//
// If the environment variable ANYLOCK_CONFORMANCE_FULL is 1, RunCore runs the whole suite.
func RunCore(t *testing.T, newHarness func(t *testing.T) Harness, extra ...string) {
	t.Helper()
	run(t, newHarness, Options{Core: os.Getenv("ANYLOCK_CONFORMANCE_FULL") != "1", Extra: extra})
}

// selected returns the checks that o selects from checks.
func (o Options) selected(checks []Check) (selected []Check) {
	for _, c := range checks {
		if o.selects(c) {
			selected = append(selected, c)
		}
	}
	return selected
}

// selects reports whether o selects c.
func (o Options) selects(c Check) bool {
	if !c.Matches(o.Run) {
		return false
	}
	if o.Core && (slices.Contains(beyondCore, c.Name) || o.Short && slices.Contains(costly, c.Name)) {
		return slices.ContainsFunc(o.Extra, c.called)
	}
	return true
}

// called reports whether name is the name of c or of its group.
func (c Check) called(name string) bool { return name == c.Name || name == c.Group }

// validate returns ErrInvalid if an element of Extra is the name of no check and no group.
func (o Options) validate() error {
	for _, name := range o.Extra {
		if !slices.ContainsFunc(Checks(), func(c Check) bool { return c.called(name) }) {
			return fmt.Errorf("%w: conformance: Options.Extra names no check and no group: %q", backend.ErrInvalid, name)
		}
	}
	return nil
}
