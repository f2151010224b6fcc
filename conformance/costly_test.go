package conformance

import (
	"slices"
	"testing"
)

// Options.Short removes exactly the costly checks from the core. Options.Extra adds them again.
func TestCostlyChecks(t *testing.T) {
	t.Parallel()
	core := Core()
	inCore := func(name string) bool { return slices.ContainsFunc(core, func(c Check) bool { return c.Name == name }) }
	for _, name := range costly {
		if !inCore(name) {
			t.Errorf("%s is no check of the core", name)
		}
	}
	selected := len(Options{Core: true, Short: true}.selected(Checks()))
	if want := len(core) - len(costly); selected != want {
		t.Errorf("Core and Short select %d checks, want %d", selected, want)
	}
	if got := len(Options{Core: true, Short: true, Extra: costly[:1]}.selected(Checks())); got != selected+1 {
		t.Errorf("with one of Extra, Core and Short select %d checks, want %d", got, selected+1)
	}
	if got := len(Options{Short: true}.selected(Checks())); got != len(Checks()) {
		t.Errorf("Short without Core selects %d of %d checks", got, len(Checks()))
	}
}
