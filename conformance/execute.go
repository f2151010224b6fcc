package conformance

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// Options tune Execute. The zero Options are good.
type Options struct {
	Run      *regexp.Regexp // only checks whose name it matches; nil means all
	Parallel int            // how many checks run at once; the default is 8, more where they mostly wait for long TTLs
	Timeout  time.Duration  // of one check; the default follows from the store's MinTTL and MaxLate
	Began    func(Check)    // called as each check begins that is not skipped for what it needs; calls may overlap
	Observe  func(Result)   // called as each result comes in, one call at a time
}

// Status is how a check ended.
type Status string

// How a check ends.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
)

// A Result is how one check ended.
type Result struct {
	Name     string
	Rule     string
	Status   Status
	Broken   string // the rule that a failed check found broken: mostly Rule
	Output   string // what it found, where in the suite, or why it was skipped; lines without a final newline
	Missing  string // what a skipped check lacks, as in Need.Missing; empty if it was skipped for another reason
	Duration time.Duration

	Interrupted bool // skipped because the suite's context had ended: nothing is known
}

// Execute runs the suite outside go test. It returns one Result for each selected check, in the order of Checks. The error
// says that the store cannot be opened, or that ctx ended: then the results tell what was found until then.
func Execute(ctx context.Context, h Harness, o Options) ([]Result, error) {
	s, err := newSuite(ctx, h, o)
	if err != nil {
		return nil, err
	}
	var (
		started []<-chan Result
		observe sync.Mutex
	)
	for _, c := range Checks() {
		if o.Run != nil && !o.Run.MatchString(c.Name) {
			continue
		}
		started = append(started, s.start(c, func(r Result) {
			if o.Observe != nil {
				observe.Lock()
				defer observe.Unlock()
				o.Observe(r)
			}
		}))
	}
	close(s.started)
	results := make([]Result, len(started))
	for i, done := range started {
		results[i] = <-done
	}
	return results, ctx.Err()
}

// A suite runs checks on one store.
type suite struct {
	ctx     context.Context
	h       Harness
	g       backend.Guarantees
	timeout time.Duration
	began   func(Check)
	slots   chan struct{}

	started chan struct{}  // closed when the last check has been started
	shared  sync.WaitGroup // checks that run side by side
	alone   sync.Mutex     // held by a check that makes faults, when those are done
}

// defaultParallel is how many checks run at once: twice as many where the shortest TTL is a second or more, as they do little
// but wait for leases to end.
func defaultParallel(g backend.Guarantees) int {
	const usual, most = 8, 16
	if g.MinTTL >= time.Second {
		return most
	}
	return usual
}

func newSuite(ctx context.Context, h Harness, o Options) (*suite, error) {
	if h.Open == nil {
		return nil, fmt.Errorf("%w: conformance: harness without Open", backend.ErrInvalid)
	}
	b, err := h.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("conformance: open: %w", err)
	}
	g := b.Guarantees()
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel(g)
	}
	s := &suite{
		ctx: ctx, h: h.withDefaults(), g: g, timeout: o.Timeout, began: o.Began,
		slots: make(chan struct{}, o.Parallel), started: make(chan struct{}),
	}
	if s.timeout <= 0 {
		s.timeout = time.Minute + 30*(s.g.Round(s.g.MinTTL)+s.g.MaxLate) + 5*time.Duration(len(s.h.Members))*s.h.Outage
	}
	if err := b.Close(); err != nil {
		return nil, fmt.Errorf("conformance: close: %w", err)
	}
	if s.g.MaxSilence > 0 && len(s.h.Members) > 0 && s.h.Outage >= s.g.MaxSilence {
		return nil, fmt.Errorf("%w: conformance: Harness.Outage %v must be less than Guarantees.MaxSilence %v, else no lease outlives it",
			backend.ErrInvalid, s.h.Outage, s.g.MaxSilence)
	}
	return s, nil
}

// start starts c on a goroutine of its own, which calls observe with the result before sending it.
func (s *suite) start(c Check, observe func(Result)) <-chan Result {
	done := make(chan Result, 1)
	if !c.alone {
		s.shared.Add(1)
	}
	go func() {
		r := s.execute(c)
		observe(r)
		done <- r
	}()
	return done
}

// execute waits for its turn and runs c.
func (s *suite) execute(c Check) Result {
	if c.alone {
		<-s.started
		s.shared.Wait()
		s.alone.Lock()
		defer s.alone.Unlock()
	} else {
		defer s.shared.Done()
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
	}
	r := Result{Name: c.Name, Rule: c.Rule}
	if n := c.Unmet(s.g, s.h); n != nil {
		r.Status, r.Output, r.Missing = Skip, n.Reason, n.Missing
		return r
	}
	if err := s.ctx.Err(); err != nil {
		r.Status, r.Output, r.Interrupted = Skip, err.Error(), true
		return r
	}
	if s.began != nil {
		s.began(c)
	}
	begun := time.Now()
	end := s.attempt(c)
	r.Status, r.Broken, r.Output = end.status, end.broken, end.output
	r.Duration = time.Since(begun)
	if err := s.ctx.Err(); err != nil && r.Status == Fail {
		r.Status, r.Broken, r.Interrupted = Skip, "", true // it proves nothing
	}
	return r
}

// mostStretch is the longest that TTLs are made for a slow machine, as a multiple of the usual.
const mostStretch = 16

// attempt runs c, again with longer TTLs while the machine was too slow for it to prove anything.
func (s *suite) attempt(c Check) outcome {
	for stretch := 1; ; stretch *= 2 {
		t := newTrial(s, c, stretch)
		end := t.perform()
		switch {
		case end.status != late:
			return end
		case stretch >= mostStretch:
			return outcome{Fail, c.Rule, end.output + fmt.Sprintf("\nthe machine is too slow for a verdict, even with TTLs %d times as long", stretch)}
		}
	}
}
