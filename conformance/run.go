package conformance

import (
	"fmt"
	"sync"
	"testing"
)

// Run runs the suite on one store, with a subtest for each check, below one for its group. newHarness is called once;
// what it starts is stopped in t.Cleanup, after the last check. Select checks with -run, as in -run
// 'TestConformance/waiting' and -run 'TestConformance//FIFO'.
//
// Checks mostly wait, so that several run at once whatever -parallel says. If ClientsShareStore fails, the others are
// skipped. With -short, Options.Short is set. The subtests of "unproven", which are always skipped, are named after
// fields of Guarantees, and report claims that no check has tested: see Unproven.
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
			t.Parallel() // the checks of the next group start
		})
	}
	s.allStarted()
	if o.Core {
		return // claims are for the whole suite
	}
	t.Run("unproven", func(t *testing.T) {
		t.Parallel() // all checks are started
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
	// The check starts now, on a goroutine of its own. Parallel then sets this subtest aside until all are started.
	done := start(c)
	t.Parallel()
	(<-done).report(t)
}

// report ends t, which is the subtest of one check, with r.
func (r Result) report(t *testing.T) {
	// Not by Log, which would show a line of this file.
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
