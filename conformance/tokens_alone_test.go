package conformance_test

import (
	"regexp"
	"testing"

	"github.com/anylock/lock/conformance"
)

// A store that forgets its tokens with its last client is found in a run of several checks too, although the others
// have clients open most of the time.
func TestTokensOutliveClientsIsAlone(t *testing.T) {
	t.Parallel()
	run := regexp.MustCompile("^(TokensOutliveClients|RenewKeepsAlive|LostAtDeadline|TTLNotLate|WaitOutlivesOwnTTL)$")
	if err := conformance.InBubble(t, func(t *testing.T) {
		s := newServer("tokens are forgotten with the last client")
		defer close(s.stop)
		results, err := conformance.Execute(t.Context(), s.harness(), conformance.Options{Run: run})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if failed := r.Status == conformance.Fail; failed != (r.Name == "TokensOutliveClients") {
				t.Errorf("%s: %s: %s", r.Name, r.Status, r.Output)
			}
		}
	}); err != nil {
		t.Error(err)
	}
}
