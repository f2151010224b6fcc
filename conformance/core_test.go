package conformance_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// noClient returns a harness whose Open fails the test. Execute must find an error in Options before it opens a client.
func noClient(t *testing.T) conformance.Harness {
	return conformance.Harness{Open: func(context.Context) (backend.Backend, error) {
		t.Error("a client was opened")
		return nil, errors.New("no client")
	}}
}

func TestUnknownExtraIsRefused(t *testing.T) {
	for _, name := range []string{"NoSuchCheck", "", "FIF", "waiting/FIFO"} {
		o := conformance.Options{Core: true, Extra: []string{"FIFO", "members", name}}
		if _, err := conformance.Execute(t.Context(), noClient(t), o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", name, err)
		}
	}
}

// Options.Core with Extra selects the core and the checks of Extra, in the order of the suite.
func TestCoreWithExtraChecks(t *testing.T) {
	t.Parallel()
	core := names(conformance.Core())
	beyond := slices.DeleteFunc(conformance.Checks(),
		func(c conformance.Check) bool { return slices.Contains(core, c.Name) })
	if len(beyond) < 20 {
		t.Fatalf("only %d checks are not in the core", len(beyond))
	}
	one, group := beyond[0].Name, beyond[len(beyond)-1].Group
	var want []string
	for _, c := range conformance.Checks() {
		if slices.Contains(core, c.Name) || c.Name == one || c.Group == group {
			want = append(want, c.Name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer("")
	results, err := conformance.Execute(ctx, s.harness(), conformance.Options{
		Core: true, Extra: []string{one, group},
		Began: func(conformance.Check) { cancel() }, // the test needs only the selection, not the verdicts
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var got []string
	for _, r := range results {
		got = append(got, r.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("selected %q\nwant %q", got, want)
	}
}

func names(checks []conformance.Check) (names []string) {
	for _, c := range checks {
		names = append(names, c.Name)
	}
	return names
}
