package conformance

import (
	"fmt"
	"sync"
	"testing"
)

// Run runs the suite on one store. Each check is a subtest of its group's subtest. Run calls newHarness once. What
// newHarness starts should be stopped by t.Cleanup, after the last check. Select checks with -run, as in -run
// 'TestConformance/waiting' and -run 'TestConformance//FIFO'.
//
// Most checks spend their time waiting, so several run at once, whatever -parallel says. If ClientsShareStore fails,
// the other checks are skipped. With -short, Options.Short is set. The subtests of "unproven" report claims that no
// check has tested: see Unproven. They are named after fields of Guarantees, and are always skipped.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	run(t, newHarness, Options{})
}

// run runs the checks that o selects: see Run.
func run(t *testing.T, newHarness func(t *testing.T) Harness, o Options) {
	t.Helper()
	o.Short = testing.Short()
	s, err := newSuite(t.Context(), newHarness(t), o)
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu      sync.Mutex
		results []Result
		running sync.WaitGroup
	)
	start := func(c Check) <-chan Result {
		running.Add(1)
		return s.start(c, func(r Result) {
			mu.Lock()
			defer mu.Unlock()
			results = append(results, r)
			running.Done()
		})
	}
	for _, g := range groups() {
		checks := o.selected(g.checks)
		if len(checks) == 0 {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			for _, c := range checks {
				t.Run(c.Name, func(t *testing.T) { s.subtest(t, c, start) })
			}
			t.Parallel() // lets the checks of the next group start
		})
	}
	s.allStarted()
	if o.Core {
		return // claims concern the whole suite
	}
	t.Run("unproven", func(t *testing.T) {
		t.Parallel() // returns when all checks have been started
		running.Wait()
		for _, c := range s.unproven(results) {
			t.Run(c.Field, func(t *testing.T) { t.Skip(c.Reason) })
		}
	})
}

// subtest runs c and reports the result to t.
func (s *suite) subtest(t *testing.T, c Check, start func(Check) <-chan Result) {
	if n := c.Unmet(s.g, s.h); n != nil {
		t.Skip(n.Reason)
	}
	// The check starts now, on a goroutine of its own. Parallel then pauses this subtest until all checks have been
	// started.
	done := start(c)
	t.Parallel()
	(<-done).report(t)
}

// report ends t, the subtest of one check, with r.
func (r Result) report(t *testing.T) {
	// t.Log would show a line of this file.
	say := func(format string, args ...any) { fmt.Fprintf(t.Output(), format+"\n", args...) }
	if r.Output != "" {
		say("%s", r.Output)
	}
	switch r.Status {
	case Fail:
		say("broken rule: %s", r.Broken)
		t.Fail()
	case NoVerdict:
		say("no verdict")
		t.Fail()
	case Skip:
		t.SkipNow()
	}
	say("took %v", r.Duration)
}
