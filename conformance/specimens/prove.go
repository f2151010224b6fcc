package specimens

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anylock/lock/conformance"
)

// A HarnessMaker makes the harness for one specimen or twin: open, bound to the addresses of servers that are running, and
// whatever faults the checks in question need. It is called for every run, side by side with others: a harness whose
// faults stop a server needs a server of its own.
type HarnessMaker func(t *testing.T, open Open) conformance.Harness

// attempts is how often a specimen may be run: a race needs luck, and a slow machine gives none.
const attempts = 3

// Prove runs, side by side, every specimen against the checks that must find it, and the twin against the same checks,
// which it must pass. It then holds the result against testdata/specimens.json, which docs/specimens.md is made of; with
// ANYLOCK_UPDATE=1 it writes that file, with what the checks said. With ANYLOCK_TWINS=1 the twin goes through the whole
// suite as well.
func Prove(t *testing.T, c Collection, harness HarnessMaker) {
	recorder := newRecord(t, c)
	t.Run("all", func(t *testing.T) { // returns when the parallel ones below it have ended
		for i, s := range c.Specimens {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for k, kill := range s.Kills {
					recorder.note(i, k, killed(t, s, kill, harness))
				}
			})
		}
		for _, check := range checksOf(c) {
			t.Run("twin/"+check, func(t *testing.T) {
				t.Parallel()
				spared(t, check, harness(t, c.Twin))
			})
		}
		if wholeSuite() {
			t.Run("twin/suite", func(t *testing.T) {
				conformance.Run(t, func(t *testing.T) conformance.Harness { return harness(t, c.Twin) })
			})
		}
	})
	recorder.compare(t)
}

// killed runs the check on the specimen until it fails as it must, and returns what it said.
func killed(t *testing.T, s Specimen, k Kill, harness HarnessMaker) string {
	t.Helper()
	for n := 1; ; n++ {
		r := execute(t, k.Check, harness(t, s.Open))
		switch {
		case r.Status == conformance.Fail && strings.Contains(r.Output, k.Says) && !strings.Contains(r.Output, "too slow for a verdict"):
			t.Logf("found by %s in %v:\n%.600s", k.Check, r.Duration, r.Output)
			return r.Output
		case r.Status == conformance.Skip || n == attempts:
			t.Errorf("survives %s: %s, want a failure that says %q; the output:\n%s", k.Check, r.Status, k.Says, r.Output)
			return ""
		}
		t.Logf("attempt %d: %s by %s:\n%s", n, r.Status, k.Check, r.Output)
	}
}

// spared runs the check on the twin, which must pass.
func spared(t *testing.T, check string, h conformance.Harness) {
	t.Helper()
	if r := execute(t, check, h); r.Status != conformance.Pass {
		t.Errorf("the twin: %s by %s:\n%s", r.Status, check, r.Output)
	}
}

// execute runs one check.
func execute(t *testing.T, check string, h conformance.Harness) conformance.Result {
	t.Helper()
	only := regexp.MustCompile("^" + regexp.QuoteMeta(check) + "$")
	results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: only})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 {
		t.Fatalf("there is no check %s", check)
	}
	return results[0]
}

// checksOf lists the checks that c's specimens name, each once.
func checksOf(c Collection) []string {
	var checks []string
	for _, s := range c.Specimens {
		for _, k := range s.Kills {
			if !slices.Contains(checks, k.Check) {
				checks = append(checks, k.Check)
			}
		}
	}
	return checks
}

// A record collects what the checks said.
type record struct {
	mu sync.Mutex
	c  Collection
}

func newRecord(t *testing.T, c Collection) *record {
	t.Helper()
	if err := c.validate("."); err != nil {
		t.Fatal(err)
	}
	r := &record{c: c}
	r.c.Specimens = slices.Clone(c.Specimens)
	for i, s := range r.c.Specimens {
		r.c.Specimens[i].Kills = slices.Clone(s.Kills)
	}
	return r
}

func (r *record) note(specimen, kill int, evidence string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.c.Specimens[specimen].Kills[kill].Evidence = evidence
}
