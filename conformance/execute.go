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
	Extra []string       // names of checks and groups that are run in addition to the core
	// how many checks run at once; the default is 8, more if they mostly wait for long TTLs, fewer if the server has room
	// for few leases
	Parallel int
	Timeout  time.Duration // of one check, on top of long waits; the default follows from the store's MinTTL and MaxLate
	Began    func(Check)   // called when a check begins or is repeated, unless it is skipped before; calls may overlap
	Observe  func(Result)  // called with the result of each check, one call at a time
	// called before the first check if the suite waits for the store to become ready, with the reason (backend.Readiness)
	NotReady func(error)

	// Short shortens the longest checks. Only the first of Members fails, random histories are half as long, and checks
	// for the remains of ended leases release 5,000 leases instead of 20,000. AgedThingsStand, which waits for 35 seconds,
	// is skipped unless time is fake (RunInBubble). With Core, it also excludes the checks that take the most processor
	// time, except those of Extra.
	Short bool
}

// Status is how a check ended.
type Status string

// The ways in which a check ends.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"

	// NoVerdict is the status of a check whose every attempt was too late to prove anything, because the machine was too
	// slow. It shows no fault of the store, but it is not a pass either.
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
	Output   string // what it found and where in the suite, or why it was skipped; without a final newline
	Missing  string // what a skipped check or a claim lacks, as in Need.Missing; empty if there is another reason
	Duration time.Duration

	// skipped because the suite's context had ended, the store is unusable, or failed checks have used up their time
	Interrupted bool
}

// Execute runs the suite outside go test. It returns one Result for each selected check, in the order of Checks. If all
// are selected, it adds one Result for each claim that no check has tested: see Unproven. If ClientsShareStore fails,
// the other checks are skipped, and claims are not reported. The error reports invalid arguments, a store that cannot
// be opened or closed or that grants nothing, or the end of ctx. If ctx ends, Execute returns the results until then.
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

// unproven returns the claims that no check has tested. It returns none if the clients do not share a store, because
// then no claim has been tested.
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
	stretch int // the largest factor by which TTLs are lengthened
	began   func(Check)

	labelled func(label string, c Check) // called with the goroutine label of each attempt at c; may be nil

	slots chan struct{}

	first        []backend.Backend // the first clients of the store
	firstFailure string            // why some of the first clients could not be opened
	firstDouble  string            // how several of the first clients were granted one key

	started chan struct{}  // closed when the last check has been started
	gate    *gate          // the check that all others wait for
	gated   bool           // whether the check of gate was started; final when started is closed
	shared  sync.WaitGroup // checks that run in parallel
	faults  sync.WaitGroup // checks that run alone, except those that step a clock
	// a lock for a check that runs alone, after the parallel checks have ended: holds a value while locked; blocking on a
	// mutex would stop the clock of a bubble
	alone chan struct{}

	unusableLock chan struct{} // a lock for the field nothing: holds a value while locked
	unusable     error         // why the remaining checks cannot run on this store
	budget       *budget
}

// defaultParallel returns how many checks run at once. It is higher if the shortest TTL is a second or more, because
// checks then mostly wait for leases to expire. It is limited because each check has at least two clients, in some
// stores with two or more connections each. A server may allow few connections per host: ZooKeeper allows 60 by
// default.
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
		alone: make(chan struct{}, 1), unusableLock: make(chan struct{}, 1),
	}
	if o.Short {
		s.h.Members = s.h.Members[:min(1, len(s.h.Members))]
	}
	b, err := s.openFirst()
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
	if err = s.probe(b, o); err == nil {
		s.raceFirst()
	}
	s.closeFirst()
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

// start runs c on a goroutine of its own, which calls observe with the result before it sends the result.
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

// execute waits until c may run, and runs it. It escapes unprintable characters in the output, which may contain text
// from a store or server.
func (s *suite) execute(c Check) (r Result) {
	defer func() { r.Output = printableLines(r.Output) }()
	if c.Name == s.gate.check {
		defer func() { s.gate.open(r.Status == Fail) }()
	} else {
		<-s.gate.opened
	}
	if !c.alone {
		r = s.runAmongOthers(c)
		if r.Status != NoVerdict {
			return r
		}
	}
	<-s.started
	s.shared.Wait()
	if c.stepsClock() {
		s.faults.Wait()
	} else {
		defer s.faults.Done()
	}
	s.alone <- struct{}{}
	defer func() { <-s.alone }()
	again := s.run(c, 1)
	again.Duration += r.Duration
	return again
}

// runAmongOthers runs c while other checks run. If there is no verdict, these may have kept the machine too busy, and c
// must run again, alone.
func (s *suite) runAmongOthers(c Check) Result {
	defer s.shared.Done()
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	r := s.run(c, cap(s.slots))
	if r.Status == NoVerdict {
		s.faults.Add(1)
	}
	return r
}

// run runs c, as one of n checks that run at the same time.
func (s *suite) run(c Check, n int) (r Result) {
	r = Result{Name: c.Name, Group: c.Group, Rule: c.Rule}
	if reason, missing := s.skips(c); reason != "" {
		r.Status, r.Output, r.Missing = Skip, reason, missing
		return r
	}
	if err := s.ctx.Err(); err != nil {
		r.Status, r.Output, r.Interrupted = Skip, err.Error(), true
		return r
	}
	if err := s.stopReason(); err != nil {
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
		r.Status, r.Broken, r.Interrupted = Skip, "", true // an interrupted check proves nothing
	}
	wrong := s.budget.isWrong()
	if r.Status == Fail || r.Status == NoVerdict && (end.hung || n == 1) {
		cost := r.Duration / time.Duration(n)
		if r.Status == NoVerdict && !end.hung {
			cost /= 4 // perhaps the machine is too slow only for this check
		}
		s.budget.add(cost, end.hung)
	}
	if r.Status == Fail && (!wrong || s.budget.endReason() == nil) {
		s.checkUsable()
	}
	return r
}

// printableLines returns text with unprintable characters escaped, except newlines and tabs.
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

// stepsClock reports whether c steps the store's clock. Such a check must run last. If tokens come from a clock, tokens
// granted while the clock is ahead are high. After a loss of its data, the store grants lower tokens for a while.
func (c Check) stepsClock() bool {
	return slices.ContainsFunc(c.Needs, func(n Need) bool { return n.Missing == needsStepClock.Missing })
}

// skips returns why c is not run, or an empty reason if it is run. missing is what c lacks, if that is the reason.
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

// A gate is the check that all others wait for. If it fails, the others are skipped, because their results would mean
// nothing.
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
		s.gate.open(false) // the check of gate was not selected
	}
}
