package conformance_test

import (
	"regexp"
	"testing"

	"github.com/anylock/lock/conformance"
)

// TestFewLeases proves that checks which want much of a store at once ask one that can hold few leases for no more than it can.
func TestFewLeases(t *testing.T) {
	t.Parallel()
	for _, many := range []int{2, 0} {
		h := newServer("limited").harness()
		h.Many = many
		results, err := conformance.Execute(t.Context(), h, conformance.Options{
			Run: regexp.MustCompile("AreKept$|RoundedUp$|^LargeBatch|^LongQueue|^HeldErrorIn|^ManyInFlight|LookAlike$"),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Status != conformance.Pass {
				t.Errorf("Harness.Many %d, Guarantees.MaxLeases %d: %s: %s\n%s", many, mostLeases, r.Name, r.Status, r.Output)
			}
		}
	}
}
