package conformance

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// RunInBubble is [Run] in fake time: the whole suite runs in one bubble of [testing/synctest], so that waiting takes no
// time and a busy machine cannot fail a check. It suits a store whose goroutines all run in the test's process and
// block on channels, timers, contexts or wait groups that were made in the bubble: a store in memory. A store that
// reaches a server, a file lock or another process needs Run, and so does a store that holds a sync.Mutex while it
// waits: blocking on a mutex, on a socket, or on a channel that was made outside the bubble stops the bubble's clock.
//
// The test and newHarness may not call Run, Parallel or Deadline on the T that newHarness receives, which belongs to
// the bubble. Its context and its Cleanup do work. The wall clock begins at 2000-01-01.
//
// Subtests, -run and -short work as with Run. A goroutine that is still blocked after the last check, and after the
// cleanup, fails the test itself, with its stack. If the bubble's clock stands still for a minute of real time, the
// checks that have begun fail with the stacks of their goroutines.
func RunInBubble(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	r := bubbleRun{began: make(map[string]bool), results: make(map[string]Result), labels: make(map[string]string)}
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.checks {
				t.Run(c.Name, func(t *testing.T) {
					r.selected = append(r.selected, c)
					t.Parallel() // resumes when RunInBubble has returned
					r.result(c).report(t)
				})
			}
			t.Parallel()
		})
	}
	r.err = inBubble(t, func(t *testing.T) { r.run(t, newHarness) })
	if r.err != nil {
		t.Errorf("conformance: %v%s", r.err, r.leaks())
	}
	t.Run("unproven", func(t *testing.T) {
		for _, c := range r.unproven {
			t.Run(c.Field, func(t *testing.T) { t.Skip(c.Reason) })
		}
	})
}

// A bubbleRun is the state of one call of RunInBubble.
type bubbleRun struct {
	selected []Check
	err      error
	unproven []Claim

	mu      sync.Mutex
	began   map[string]bool   // by name of the check
	results map[string]Result // by name of the check
	labels  map[string]string // from the goroutine label of each trial to the name of its check
}

// run runs the selected checks in the bubble of t.
func (r *bubbleRun) run(t *testing.T, newHarness func(t *testing.T) Harness) {
	s, err := newSuite(t.Context(), newHarness(t), Options{Short: testing.Short(), Began: func(c Check) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.began[c.Name] = true
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.labelled = func(label string, c Check) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.labels[label] = c.Name
	}
	var started []<-chan Result
	for _, c := range r.selected {
		started = append(started, s.start(c, func(result Result) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.results[c.Name] = result
		}))
	}
	s.allStarted()
	var results []Result
	for _, done := range started {
		results = append(results, <-done)
	}
	r.unproven = s.unproven(results)
}

// result returns the result of c. A check without a result was running, or had not begun, when the bubble ended.
func (r *bubbleRun) result(c Check) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, ok := r.results[c.Name]
	switch {
	case ok:
		return result
	case !r.began[c.Name]:
		return Result{Status: Skip, Output: "not run: the suite ended early"}
	}
	output := fmt.Sprintf("not done: %v", r.err)
	for label, name := range r.labels {
		if name == c.Name {
			output += "\ngoroutines of this check:\n" + goroutineDump(label)
		}
	}
	return Result{Status: Fail, Broken: c.Rule, Output: output}
}

// leaks returns the stacks of the goroutines that finished checks have leaked. It includes a few attempts at most, and
// counts the others.
func (r *bubbleRun) leaks() (text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 3
	n := 0
	for label, name := range r.labels {
		if _, done := r.results[name]; !done {
			continue // result includes them
		}
		if dump := goroutineDump(label); dump != "" {
			if n++; n <= most {
				text += fmt.Sprintf("\ngoroutines of %s:\n%s", name, dump)
			}
		}
	}
	if n > most {
		text += fmt.Sprintf("\nand those of %d more attempts at checks", n-most)
	}
	return text
}

const (
	// maxStandstill is how long a bubble's clock may stand still, in real time.
	maxStandstill = time.Minute

	// lull is how long goroutines may take, in fake time, to end after the checks and the cleanup have ended.
	lull = time.Minute
)

// inBubble runs f in a bubble of testing/synctest. Unlike synctest.Test, it returns an error in two cases: goroutines
// are still blocked after f and its cleanup have ended, or the bubble's clock stands still for maxStandstill. In the
// second case, the goroutines of the bubble continue to run.
func inBubble(t *testing.T, f func(t *testing.T)) error {
	var (
		// counts ticks of the bubble's clock, so frequent that even a busy machine reaches the next in time
		beats  atomic.Int64
		bubble atomic.Value // the name of the bubble, a string
	)
	bubble.Store("")
	done := make(chan error, 1)
	go func() {
		var err error // also nil if synctest.Test calls runtime.Goexit, after it has failed t
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("testing/synctest: %v", p)
			}
			done <- err
		}()
		synctest.Test(t, func(t *testing.T) {
			bubble.Store(bubbleName())
			over, begun := make(chan struct{}), time.Now()
			go func() {
				for {
					pause := min(max(10*tick, time.Since(begun)/100), time.Second) // the checks that take long come first
					select {
					case <-over:
						return
					case <-time.After(pause):
						beats.Add(1)
					}
				}
			}()
			t.Cleanup(func() { time.Sleep(lull); close(over) })
			f(t)
		})
	}()
	for last := int64(-1); ; last = beats.Load() {
		select {
		case err := <-done:
			return err
		case <-time.After(maxStandstill):
			if beats.Load() == last {
				return fmt.Errorf("the clock of the bubble has stood still for %v: a goroutine runs all the time, or is "+
					"blocked by something that is not the bubble's, such as a mutex, a socket, or a channel made outside of it:\n%s",
					maxStandstill, undurable(bubble.Load().(string)))
			}
		}
	}
}

// moveClock sleeps for an instant if no time has passed after since. That happens in a bubble, because its clock moves
// only while all goroutines are blocked.
func moveClock(since time.Time) {
	if time.Since(since) == 0 {
		time.Sleep(time.Microsecond)
	}
}
