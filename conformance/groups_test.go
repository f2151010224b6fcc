package conformance_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/anylock/lock/conformance"
)

// Every check has a group and a unique name. The checks of a group are consecutive.
func TestGroups(t *testing.T) {
	t.Parallel()
	var groups, names []string
	for _, c := range conformance.Checks() {
		if !regexp.MustCompile(`^[a-z]+/[A-Z][A-Za-z]+$`).MatchString(c.Path()) {
			t.Errorf("a check is called %q", c.Path())
		}
		if len(groups) == 0 || groups[len(groups)-1] != c.Group {
			groups = append(groups, c.Group)
		}
		names = append(names, c.Name)
	}
	for _, list := range [][]string{groups, names} {
		slices.Sort(list)
		if n := len(slices.Compact(slices.Clone(list))); n != len(list) {
			t.Errorf("%d of %d are different: %v", n, len(list), list)
		}
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	c := conformance.Check{Group: "waiting", Name: "FIFOAfterCancel"}
	for pattern, want := range map[string]bool{
		"": true, "FIFO": true, "^FIFOAfterCancel$": true, "^waiting$": true, "^waiting/FIFO": true, "^cancel": false,
		"^FIFO$": false,
	} {
		if got := c.Matches(regexp.MustCompile(pattern)); got != want {
			t.Errorf("%q: %v, want %v", pattern, got, want)
		}
	}
	if !c.Matches(nil) {
		t.Error("no pattern leaves out a check")
	}
}
