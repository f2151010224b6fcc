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
	Parallel int            // how many checks run at once; default 8
	Timeout  time.Duration  // of one check; the default follows from the store's MinTTL and MaxLate
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
	Output   string // what it found, or why it was skipped; lines without a final newline
	Duration time.Duration
}

// Execute runs the suite outside go test. It returns one Result for each selected check, in the order of Checks. The error
// says that the suite could not be run at all: the store cannot be opened, or ctx ended.
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
		done := make(chan Result, 1)
		started = append(started, done)
		go func() {
			r := s.execute(c)
			if o.Observe != nil {
				observe.Lock()
				o.Observe(r)
				observe.Unlock()
			}
			done <- r
		}()
	}
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
	slots   chan struct{}
	alone   sync.RWMutex // held for writing by a check that makes faults
}

const defaultParallel = 8

func newSuite(ctx context.Context, h Harness, o Options) (*suite, error) {
	if h.Open == nil {
		return nil, fmt.Errorf("%w: conformance: harness without Open", backend.ErrInvalid)
	}
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel
	}
	b, err := h.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("conformance: open: %w", err)
	}
	s := &suite{ctx: ctx, h: h.withDefaults(), g: b.Guarantees(), timeout: o.Timeout, slots: make(chan struct{}, o.Parallel)}
	if s.timeout <= 0 {
		s.timeout = time.Minute + 30*(s.g.Round(s.g.MinTTL)+s.g.MaxLate)
	}
	if err := b.Close(); err != nil {
		return nil, fmt.Errorf("conformance: close: %w", err)
	}
	return s, nil
}

// execute waits for its turn and runs c.
func (s *suite) execute(c Check) Result {
	r := Result{Name: c.Name, Rule: c.Rule}
	if reason := c.unmet(s.g, s.h); reason != "" {
		r.Status, r.Output = Skip, reason
		return r
	}
	if c.alone {
		s.alone.Lock()
		defer s.alone.Unlock()
	} else {
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		s.alone.RLock()
		defer s.alone.RUnlock()
	}
	if err := s.ctx.Err(); err != nil {
		r.Status, r.Output = Skip, err.Error()
		return r
	}
	begun := time.Now()
	r.Status, r.Output = s.attempt(c)
	r.Duration = time.Since(begun)
	return r
}

// mostStretch is the longest that TTLs are made for a slow machine, as a multiple of the usual.
const mostStretch = 16

// attempt runs c, again with longer TTLs while the machine was too slow for it to prove anything.
func (s *suite) attempt(c Check) (Status, string) {
	for stretch := 1; ; stretch *= 2 {
		t := newTrial(s, c, stretch)
		end := t.perform()
		switch {
		case end.status != late:
			return end.status, end.output
		case stretch >= mostStretch:
			return Fail, end.output + fmt.Sprintf("\nthe machine is too slow for a verdict, even with TTLs %d times as long", stretch)
		}
	}
}
