package conformance_test

import (
	"regexp"
	"testing"

	"github.com/anylock/lock/conformance"
)

// TestFewLeases proves that no check asks a store that can hold few leases for more than it can. The checks that make faults, which hold
// few in any case and run one by one, are in the complete run only.
func TestFewLeases(t *testing.T) {
	t.Parallel()
	o := conformance.Options{Short: testing.Short()}
	if o.Short {
		o.Run = regexp.MustCompile("^(guarantees|exclusion|crowds|ttl|ownership|renewal|loss|waiting|cancel|tokens|keys|inspect|close|evict)$")
	}
	results, err := conformance.Execute(t.Context(), newServer("limited").harness(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Status == conformance.Fail {
			t.Errorf("Guarantees.MaxLeases %d: %s: %s", mostLeases, r.Name, r.Output)
		}
	}
}
