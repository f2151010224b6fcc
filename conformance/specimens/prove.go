package specimens

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anylock/lock/conformance"
)

// A HarnessMaker makes the harness for one specimen or twin: open, bound to the addresses of servers that are running,
// and whatever faults the checks in question need. It is called for every run, side by side with others: a harness
// whose faults stop a server needs a server of its own. Prove adds links and other processes, where open gets addresses
// of host and port, and TestMain calls Main.
type HarnessMaker func(t *testing.T, open Open) conformance.Harness

// An Option changes what Prove does.
type Option func(*proof)

// For makes the harness of one specimen, and of the twin for that specimen's checks, otherwise.
func For(specimen string, harness HarnessMaker) Option {
	return func(p *proof) { p.special[specimen] = harness }
}

// Unlinked has the twin go through the whole suite without links: its leases end with their connections, which is
// stated in its Guarantees.
func Unlinked() Option {
	return func(p *proof) { p.unlinked = true }
}

// A proof is what is run for one collection.
type proof struct {
	collection Collection
	harness    HarnessMaker
	special    map[string]HarnessMaker // by specimen
	unlinked   bool
}

// attempts is how often a specimen may be run: a race needs luck, and a slow machine gives none.
const attempts = 3

// abreast is how many runs there are at a time. They wait, mostly, so that it does not depend on processors as
// t.Parallel does.
const abreast = 6

// Prove runs, side by side, every specimen against the checks that must find it, and the twin against the same checks,
// which it must pass. It then holds the result against testdata/specimens.json, which docs/evidence/specimens.md is
// made of; with ANYLOCK_UPDATE=1 it writes that file, with what the checks said. With ANYLOCK_TWINS=1 the twin goes
// through the whole suite as well.
func Prove(t *testing.T, c Collection, harness HarnessMaker, options ...Option) {
	p := &proof{collection: c, harness: harness, special: make(map[string]HarnessMaker)}
	for _, o := range options {
		o(p)
	}
	recorder := newRecord(t, c)
	var group runs
	for i, s := range c.Specimens {
		for k, kill := range s.Kills {
			group.add(s.Name+"/"+kill.Check,
				func(t *testing.T) { recorder.note(i, k, killed(t, s, kill, p.harnessFor(s.Name))) })
		}
	}
	for _, s := range p.spare() {
		group.add(path.Join("twin", s.special, s.check), func(t *testing.T) {
			spared(t, s.check, (&subject{open: c.Twin}).harness(t, p.harnessFor(s.special)))
		})
	}
	group.run(t)
	if wholeSuite() {
		t.Run("twin", func(t *testing.T) {
			conformance.Run(t, func(t *testing.T) conformance.Harness {
				h := (&subject{open: c.Twin}).harness(t, harness)
				if p.unlinked {
					h.Linked = nil
				}
				return h
			})
		})
	}
	recorder.compare(t)
}

func (p *proof) harnessFor(specimen string) HarnessMaker {
	if h, ok := p.special[specimen]; ok {
		return h
	}
	return p.harness
}

// A sparing is a check that the twin must pass, with the harness of one specimen if that is special.
type sparing struct{ special, check string }

// spare lists the checks that the specimens name, each once.
func (p *proof) spare() []sparing {
	var all []sparing
	for _, s := range p.collection.Specimens {
		for _, k := range s.Kills {
			one := sparing{check: k.Check}
			if p.special[s.Name] != nil {
				one.special = s.Name
			}
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
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
		case r.Status == conformance.Fail && k.said(r.Output) != "":
			t.Logf("found by %s in %v:\n%.600s", k.Check, r.Duration, r.Output)
			return excerpt(r.Output, k.said(r.Output))
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
	from := min(first, len(lines)-most)
	shown := slices.Clone(lines[from : from+most])
	if from > 0 {
		shown = slices.Insert(shown, 0, "…")
	}
	if from+most < len(lines) {
		shown = append(shown, "…")
	}
	return strings.Join(shown, "\n")
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
	// What a machine cannot do at all, as give a process a wrong clock, proves nothing either way.
	if r := results[0]; r.Status == conformance.Skip && strings.Contains(r.Output, errors.ErrUnsupported.Error()) {
		t.Skip(r.Output)
	}
	return results[0]
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
