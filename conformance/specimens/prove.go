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
// faults stop a server needs a server of its own. Prove adds links and other processes, where open gets addresses of
// host and port, and TestMain calls Main.
type HarnessMaker func(t *testing.T, open Open) conformance.Harness

// attempts is how often a specimen may be run: a race needs luck, and a slow machine gives none.
const attempts = 3

// abreast is how many runs there are at a time. They wait, mostly, so that it does not depend on processors as t.Parallel does.
const abreast = 6

// Prove runs, side by side, every specimen against the checks that must find it, and the twin against the same checks,
// which it must pass. It then holds the result against testdata/specimens.json, which docs/specimens.md is made of; with
// ANYLOCK_UPDATE=1 it writes that file, with what the checks said. With ANYLOCK_TWINS=1 the twin goes through the whole
// suite as well.
func Prove(t *testing.T, c Collection, harness HarnessMaker) {
	recorder := newRecord(t, c)
	var group runs
	for i, s := range c.Specimens {
		for k, kill := range s.Kills {
			group.add(s.Name+"/"+kill.Check, func(t *testing.T) { recorder.note(i, k, killed(t, s, kill, harness)) })
		}
	}
	for _, check := range checksOf(c) {
		group.add("twin/"+check, func(t *testing.T) { spared(t, check, (&subject{open: c.Twin}).harness(t, harness)) })
	}
	group.run(t)
	if wholeSuite() {
		t.Run("twin", func(t *testing.T) {
			conformance.Run(t, func(t *testing.T) conformance.Harness { return (&subject{open: c.Twin}).harness(t, harness) })
		})
	}
	recorder.compare(t)
}

// runs are subtests.
type runs []struct {
	name string
	f    func(t *testing.T)
}

func (r *runs) add(name string, f func(t *testing.T)) {
	*r = append(*r, struct {
		name string
		f    func(t *testing.T)
	}{name, f})
}

// run runs them, several at a time.
func (r runs) run(t *testing.T) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, abreast)
	for _, one := range r {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			t.Run(one.name, one.f)
		})
	}
	wg.Wait()
}

// killed runs the check on the specimen until it fails as it must, and returns what it said.
func killed(t *testing.T, s Specimen, k Kill, harness HarnessMaker) string {
	t.Helper()
	for n := 1; ; n++ {
		r := execute(t, k.Check, (&subject{name: s.Name, open: s.Open}).harness(t, harness))
		switch {
		case r.Status == conformance.Fail && strings.Contains(r.Output, k.Says) && !strings.Contains(r.Output, "too slow for a verdict"):
			t.Logf("found by %s in %v:\n%.600s", k.Check, r.Duration, r.Output)
			return excerpt(r.Output, k.Says)
		case r.Status == conformance.Skip || n == attempts:
			t.Errorf("survives %s: %s, want a failure that says %q; the output:\n%s", k.Check, r.Status, k.Says, r.Output)
			return ""
		}
		t.Logf("attempt %d: %s by %s:\n%s", n, r.Status, k.Check, r.Output)
	}
}

// excerpt returns the first lines of output, with one that says what it must.
func excerpt(output, says string) string {
	const most = 5
	lines := strings.Split(output, "\n")
	if len(lines) <= most {
		return output
	}
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, says) })
	if first < 0 { // it goes over several lines
		return output
	}
	lines = lines[min(first, len(lines)-most):]
	return strings.Join(lines[:most], "\n") + "\n…"
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
