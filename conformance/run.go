package conformance

import (
	"fmt"
	"testing"
)

// Run runs the suite on one store, with a subtest for each check. newHarness is called once; what it starts is stopped in
// t.Cleanup, after the last check. Select checks with -run, as in -run 'TestConformance/FIFO'.
//
// Checks mostly wait, so that several run at once whatever -parallel says. If ClientsShareStore fails, the others are skipped. With -short,
// Options.Short is set. Subtests named after fields of Guarantees, which are always skipped, tell of claims that no check could test: see
// Unproven.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	s, err := newSuite(t.Context(), newHarness(t), Options{Short: testing.Short()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if n := c.Unmet(s.g, s.h); n != nil {
				t.Skip(n.Reason)
			}
			// The check starts now, on a goroutine of its own. Parallel then sets this subtest aside until all are started.
			done := s.start(c, func(Result) {})
			t.Parallel()
			r := <-done
			// Not by Log, which would show a line of this file.
			say := func(format string, args ...any) { fmt.Fprintf(t.Output(), format+"\n", args...) }
			if r.Output != "" {
				say("%s", r.Output)
			}
			switch r.Status {
			case Fail:
				say("broken rule: %s", r.Broken)
				t.Fail()
			case Skip:
				t.SkipNow()
			}
			say("took %v", r.Duration)
		})
	}
	s.allStarted()
	for _, c := range Unproven(s.g, s.h) {
		t.Run(c.Field, func(t *testing.T) { t.Skip(c.Reason) })
	}
}
