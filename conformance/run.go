package conformance

import (
	"testing"
)

// Run runs the suite on one store, with a subtest for each check. newHarness is called once; what it starts is stopped in
// t.Cleanup, after the last check. Select checks with -run, as in -run 'TestConformance/FIFO'.
//
// Checks mostly wait, so that several run at once whatever -parallel says.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	s, err := newSuite(t.Context(), newHarness(t), Options{})
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
			if r.Output != "" {
				t.Log(r.Output)
			}
			switch r.Status {
			case Fail:
				t.Errorf("broken rule: %s", r.Rule)
			case Skip:
				t.SkipNow()
			}
			t.Logf("took %v", r.Duration)
		})
	}
	close(s.started)
}
