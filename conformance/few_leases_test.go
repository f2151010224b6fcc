package conformance_test

import (
	"testing"

	"github.com/anylock/lock/conformance"
)

// TestFewLeases proves that no check asks a store that can hold few leases for more than it can.
func TestFewLeases(t *testing.T) {
	t.Parallel()
	results, err := conformance.Execute(t.Context(), newServer("limited").harness(), conformance.Options{Short: testing.Short()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Status == conformance.Fail {
			t.Errorf("Guarantees.MaxLeases %d: %s: %s", mostLeases, r.Name, r.Output)
		}
	}
}
