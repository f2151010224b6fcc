package conformance

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Options configure Execute. The zero Options are good defaults.
type Options struct {
	Run   *regexp.Regexp // only checks that it matches, see Check.Matches; nil means all
	Core  bool           // only checks of the core, see Core, and those of Extra
	Extra []string       // names of checks and groups that Core does not leave out
	// how many checks run at once; the default is 8, more where they mostly wait for long TTLs, less where the server has
	// room for few leases
	Parallel int
	Timeout  time.Duration // of one check; the default follows from the store's MinTTL and MaxLate
	Began    func(Check)   // called as each check begins that is not skipped for what it needs; calls may overlap
	Observe  func(Result)  // called as each check's result comes in, one call at a time
	// called before the first check with why the store cannot grant yet (backend.Readiness), if it is waited for
	NotReady func(error)

	// Short leaves out what takes longest: only the first of Members fails, random histories are half as long, and
	// checks of what ended leases leave behind release 5,000 leases instead of 20,000. With Core, the checks that take
	// the most processor time are left out too, except those of Extra.
	Short bool
}

// Status is how a check ended.
type Status string

// How a check ends.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"

	// NoVerdict is the status of a check that was too late in each attempt to prove anything, because the machine was
	// too slow. It shows nothing wrong with the store, and it is no pass.
	NoVerdict Status = "no verdict"

	// NotProven is the status of a [Claim] that no check could test, not of a check.
	NotProven Status = "not proven"
)

// A Result is how one check ended.
type Result struct {
	Name     string
	Group    string // empty for a claim
	Rule     string
	Status   Status
	Broken   string // the rule that a failed check found broken: mostly Rule; empty unless Status is Fail
	Output   string // what it found, where in the suite, or why it was skipped; lines without a final newline
	Missing  string // what a skipped check or a claim lacks, as in Need.Missing; empty if there is another reason
	Duration time.Duration

	// skipped because the suite's context had ended, the store is unusable, or failed checks have used up their time
	Interrupted bool
}

// Execute runs the suite outside go test. It returns one Result for each selected check, in the order of Checks. If all
// are selected, one for each claim follows that no check has tested: see Unproven. If ClientsShareStore fails, the
// checks after it are skipped, and claims are not looked at. The error says that the store cannot be opened or closed
// or grants nothing, or that ctx ended: then the results have what was found until then.
func Execute(ctx context.Context, h Harness, o Options) ([]Result, error) {
	return execute(ctx, h, o, o.selected(Checks()))
}

func execute(ctx context.Context, h Harness, o Options, checks []Check) ([]Result, error) {
	s, err := newSuite(ctx, h, o)
	if err != nil {
		return nil, err
	}
	var (
		started []<-chan Result
		observe sync.Mutex
	)
	for _, c := range checks {
		started = append(started, s.start(c, func(r Result) {
			if o.Observe != nil {
				observe.Lock()
				defer observe.Unlock()
				o.Observe(r)
			}
		}))
	}
	s.allStarted()
	results := make([]Result, len(started))
	for i, done := range started {
		results[i] = <-done
	}
	if o.Run == nil && !o.Core && ctx.Err() == nil {
		for _, c := range s.unproven(results) {
			results = append(results, Result{Name: c.Field, Rule: c.Text, Status: NotProven, Output: c.Reason,
				Missing: c.Missing})
		}
	}
	return results, ctx.Err()
}

// unproven are the claims that no check has tested; none if the store is not shared, when nothing is known of any.
func (s *suite) unproven(results []Result) []Claim {
	if s.gate.failed() {
		return nil
	}
	return Unproven(s.g, s.h, results...)
}

// A suite runs checks on one store.
type suite struct {
	ctx     context.Context
	h       Harness
	g       backend.Guarantees
	timeout time.Duration
	short   bool
	large   int // how many leases a large batch has
	stretch int // the longest that TTLs are made
	began   func(Check)

	labelled func(label string, c Check) // called with the goroutine label of each attempt at c; may be nil

	slots chan struct{}

	started chan struct{}  // closed when the last check has been started
	gate    *gate          // what all others wait for
	gated   bool           // whether its check was started; until started is closed
	shared  sync.WaitGroup // checks that run side by side
	faults  sync.WaitGroup // checks that make faults, but for steps of a clock
	// full while a check makes faults, when those that run side by side are done; in a bubble, a mutex would stop the
	// clock
	alone chan struct{}

	ending  chan struct{} // full while one goroutine reads or finds out nothing
	nothing error         // why the store is of no use any more
	budget  *budget
}

// defaultParallel is how many checks run at once: more where the shortest TTL is a second or more, as they do little but
// wait for leases to end. Each check has two clients or more, of two connections or more for some stores; a server may
// allow few for one host: ZooKeeper 60, by default.
func defaultParallel(g backend.Guarantees) int {
	const usual, most = 8, 12
	if g.MinTTL >= time.Second {
		return most
	}
	return usual
}

func newSuite(ctx context.Context, h Harness, o Options) (*suite, error) {
	if h.Open == nil {
		return nil, fmt.Errorf("%w: conformance: harness without Open", backend.ErrInvalid)
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	for name := range h.Skip {
		if !slices.ContainsFunc(Checks(), func(c Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("%w: conformance: Harness.Skip names no check: %s", backend.ErrInvalid, name)
		}
	}
	s := &suite{
		ctx: ctx, h: h.withDefaults(), timeout: cmp.Or(max(o.Timeout, 0), time.Minute), began: o.Began,
		started: make(chan struct{}), gate: newGate(), short: o.Short,
		alone: make(chan struct{}, 1), ending: make(chan struct{}, 1),
	}
	if o.Short {
		s.h.Members = s.h.Members[:min(1, len(s.h.Members))]
	}
	b, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("conformance: open: %w", err)
	}
	var g backend.Guarantees
	if err := bounded(soon, func() error { g = b.Guarantees(); return nil }); err != nil {
		return nil, fmt.Errorf("conformance: Guarantees: %w", err)
	}
	s.g, s.stretch, s.h.client = g, mostStretched(g, s.h), b
	if o.Timeout <= 0 {
		s.timeout += 30*(s.g.Round(s.g.MinTTL)+s.g.MaxLate) + 5*time.Duration(len(s.h.Members))*s.h.Outage
	}
	s.budget = newBudget(s.g, s.h, s.timeout)
	err = s.probe(b, o)
	if e := s.closes(b); err == nil && e != nil {
		err = fmt.Errorf("conformance: close: %w", e)
	}
	if err != nil {
		return nil, err
	}
	if s.stretch == 0 {
		return nil, fmt.Errorf("%w: conformance: Guarantees.MaxTTL %v is too short for the suite, with MinTTL %v "+
			"and MaxLate %v",
			backend.ErrInvalid, g.MaxTTL, g.MinTTL, g.MaxLate)
	}
	if s.g.MaxSilence > 0 && len(s.h.Members) > 0 && s.h.Outage >= s.g.MaxSilence {
		return nil, fmt.Errorf("%w: conformance: Harness.Outage %v must be less than Guarantees.MaxSilence %v, else no "+
			"lease outlives it",
			backend.ErrInvalid, s.h.Outage, s.g.MaxSilence)
	}
	return s, nil
}

// start starts c on a goroutine of its own, which calls observe with the result before sending it.
func (s *suite) start(c Check, observe func(Result)) <-chan Result {
	done := make(chan Result, 1)
	s.gated = s.gated || c.Name == s.gate.check
	switch {
	case !c.alone:
		s.shared.Add(1)
	case !c.stepsClock():
		s.faults.Add(1)
	}
	go func() {
		r := s.execute(c)
		observe(r)
		done <- r
	}()
	return done
}

// execute waits for its turn and runs c. Its output may have the text of a store or server.
func (s *suite) execute(c Check) (r Result) {
	defer func() { r.Output = printableLines(r.Output) }()
	if c.Name == s.gate.check {
		defer func() { s.gate.open(r.Status == Fail) }()
	} else {
		<-s.gate.opened
	}
	if c.alone {
		<-s.started
		s.shared.Wait()
		if c.stepsClock() {
			s.faults.Wait()
		} else {
			defer s.faults.Done()
		}
		s.alone <- struct{}{}
		defer func() { <-s.alone }()
	} else {
		defer s.shared.Done()
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
	}
	r = Result{Name: c.Name, Group: c.Group, Rule: c.Rule}
	if reason, missing := s.skips(c); reason != "" {
		r.Status, r.Output, r.Missing = Skip, reason, missing
		return r
	}
	if err := s.ctx.Err(); err != nil {
		r.Status, r.Output, r.Interrupted = Skip, err.Error(), true
		return r
	}
	if err := s.ended(); err != nil {
		r.Status, r.Output, r.Interrupted = Skip, fmt.Sprintf("not run: %v", err), true
		return r
	}
	if s.began != nil {
		s.began(c)
	}
	begun := time.Now()
	end := s.attempt(c)
	r.Status, r.Broken, r.Missing, r.Output = end.status, end.broken, end.missing, end.output
	r.Interrupted = end.interrupted
	r.Duration = time.Since(begun)
	if err := s.ctx.Err(); err != nil && (r.Status == Fail || r.Status == NoVerdict) {
		r.Status, r.Broken, r.Interrupted = Skip, "", true // it proves nothing
	}
	wrong := s.budget.isWrong()
	if r.Status == Fail || r.Status == NoVerdict {
		cost := r.Duration
		if r.Status == NoVerdict && !end.hung {
			cost /= 4 // the machine may be too slow for this check alone
		}
		if !c.alone {
			cost /= time.Duration(cap(s.slots)) // others ran beside it
		}
		s.budget.add(cost, end.hung)
	}
	if r.Status == Fail && (s.budget.over() == nil || !wrong && s.budget.left() > 0) {
		s.checkUsable()
	}
	return r
}

// printableLines returns text with what is not printable escaped, except the ends of lines and tabs.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		fields := strings.Split(line, "\t")
		for j, f := range fields {
			fields[j] = kit.Printable(f)
		}
		lines[i] = strings.Join(fields, "\t")
	}
	return strings.Join(lines, "\n")
}

// stepsClock reports whether a check must run last: where tokens come from a clock, those that were granted while it
// was ahead are above what a store that has lost its data grants for a while.
func (c Check) stepsClock() bool {
	return slices.ContainsFunc(c.Needs, func(n Need) bool { return n.Missing == needsStepClock.Missing })
}

// skips returns why c is not run, empty if it is, and what it lacks, if that is the reason.
func (s *suite) skips(c Check) (reason, missing string) {
	if n := c.Unmet(s.g, s.h); n != nil {
		return n.Reason, n.Missing
	}
	if reason, ok := s.h.Skip[c.Name]; ok {
		return "left out by Harness.Skip: " + cmp.Or(reason, "no reason given"), ""
	}
	if s.gate.failed() {
		return s.gate.check + " has failed: nothing that other checks would say can be relied on", ""
	}
	return "", ""
}

// A gate is the check that all others wait for: where it fails, they would make noise.
type gate struct {
	check  string
	opened chan struct{}
	once   sync.Once
	broken atomic.Bool
}

func newGate() *gate { return &gate{check: "ClientsShareStore", opened: make(chan struct{})} }

func (g *gate) open(broken bool) {
	g.once.Do(func() {
		g.broken.Store(broken)
		close(g.opened)
	})
}

func (g *gate) failed() bool { return g.broken.Load() }

// allStarted is called when the last check has been started.
func (s *suite) allStarted() {
	close(s.started)
	if !s.gated {
		s.gate.open(false) // its check was not selected
	}
}
