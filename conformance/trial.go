package conformance

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// late is the status of a trial that ran too late to prove anything. The trial is repeated.
const late Status = "late"

// A trial is one attempt at one check: two clients, a fresh key, and what went wrong.
type trial struct {
	ctx       context.Context
	cancel    context.CancelFunc
	h         Harness
	g         backend.Guarantees
	timeout   time.Duration
	stretch   int
	large     int    // how many leases one client can have at once, if the check holds no others
	label     string // of every goroutine that the trial starts: see goroutines
	run       func(*trial)
	name      string          // of the check
	rule      string          // that the check proves
	group     string          // of the check
	shortMode bool            // as in Options.Short
	alone     bool            // as in Check: it makes faults
	aborted   <-chan struct{} // closed when the suite ends early, see budget

	firstFailure, firstDouble string // as in suite

	a, b backend.Backend // two independent clients
	key  string          // fresh

	pulse  pulse
	others sync.WaitGroup // goroutines of the check

	mu       sync.Mutex
	status   Status
	broken   string // the rule that the first failure broke, or that a late trial would have broken
	seen     string // the format of the message that made the trial late
	harmless bool   // that message shows nothing wrong with the store
	missing  string // what a check that was skipped lacks, as in Need.Missing
	output   strings.Builder
	faults   []func() // each ends a fault; may be called twice
	cleanups []func()
	grants   []*grant
	keyOf    map[string]string // the key that each owner requested, unless the request failed
	waits    []*waiting
}

func newTrial(s *suite, c Check, stretch int) *trial {
	lasts := c.lasts
	if bubbleName() != "" {
		lasts = cmp.Or(c.lastsInBubble, lasts)
	}
	t := &trial{h: s.h, g: s.g, timeout: s.limit(stretch) + lasts, stretch: stretch, large: s.large, run: c.run,
		name: c.Name, rule: c.Rule, group: c.Group, shortMode: s.short, alone: c.alone, aborted: s.budget.spent,
		firstFailure: s.firstFailure, firstDouble: s.firstDouble,
		status: Pass, keyOf: make(map[string]string)}
	t.ctx, t.cancel = context.WithCancel(s.ctx)
	t.key = t.newKey()
	t.label = t.key
	return t
}

// An outcome is how a trial ended.
type outcome struct {
	status      Status
	broken      string // a rule, if it failed or was late
	missing     string // a hook, if it was skipped because the hook is missing
	output      string
	hung        bool // it did not end within its time limit
	interrupted bool // it was skipped because the suite ended early

	// of a late trial
	seen     string        // the format of the message that made it late
	harmless bool          // that message shows nothing wrong with the store
	stood    time.Duration // longest time that this process stood still, 0 if the machine was not slow
}

// perform runs the check within its time limit. If the check does not return even after its context has ended, perform
// abandons its goroutine.
func (t *trial) perform() outcome {
	defer t.cancel()
	done := make(chan struct{})
	defer t.watchPulse()()
	go pprof.Do(t.ctx, pprof.Labels(labelName, t.label, "check", t.name), func(context.Context) {
		defer close(done)
		defer t.recover() // for a panic in finish
		defer t.finish()
		defer t.recover()
		t.a, t.b = t.open(), t.open()
		t.run(t)
	})
	if t.inLimit(done) {
		return t.outcome()
	}
	interrupted := t.isAborted() && !t.ended()
	switch {
	case interrupted:
		t.skip("not done when the suite ended early")
	case t.hasFailed():
		t.errorf("not ended %v after its failure; goroutines of this check:\n%s", t.grace(), goroutineDump(t.label))
	default:
		t.errorf("not done after %v; goroutines of this check:\n%s", t.timeout, goroutineDump(t.label))
	}
	end := t.outcome() // before the end of the context causes further failures
	end.hung, end.interrupted = !interrupted, interrupted
	t.cancel()
	t.endFaults()
	t.within(soon, done)
	return end
}

// inLimit waits for done until the check's time limit, or less if the result is known or no longer needed. It reports
// whether done was closed in time.
func (t *trial) inLimit(done <-chan struct{}) bool {
	for waited, left := time.Duration(0), t.timeout; left > 0; {
		part := min(left, max(10*tick, waited/100)) // time in which this process does not run counts as one part
		select {
		case <-done:
			return true
		case <-time.After(part):
		}
		waited += part
		if left -= part; t.isAborted() || t.hasFailed() {
			left = min(left, t.grace())
		}
	}
	return false
}

// grace returns how long a check may still run after its result is known.
func (t *trial) grace() time.Duration {
	grace := 2 * soon
	if t.isAborted() {
		grace = soon
	}
	if t.alone { // servers that the check has stopped must be started again
		grace += recovery + time.Duration(min(2, len(t.h.Members)))*t.h.Outage
	}
	return grace
}

// isAborted reports whether the suite has ended early.
func (t *trial) isAborted() bool {
	select {
	case <-t.aborted:
		return true
	default:
		return false
	}
}

func (t *trial) outcome() outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	return outcome{status: t.status, broken: t.broken, missing: t.missing,
		output: strings.TrimRight(t.output.String(), "\n"),
		seen:   t.seen, harmless: t.harmless, stood: t.pulse.longestStandstill()}
}

// recover turns a panic of the check's goroutine into a failure.
func (t *trial) recover() {
	if p := recover(); p != nil {
		buf := make([]byte, 64<<10)
		t.errorf("panic: %v\n%s", p, buf[:runtime.Stack(buf, false)])
	}
}

// endFaults ends the faults that the check has made.
func (t *trial) endFaults() {
	t.mu.Lock()
	faults := t.faults
	t.mu.Unlock()
	for _, end := range faults {
		end()
	}
}

// finish ends faults, releases leases, waits for the check's goroutines, and closes the clients.
func (t *trial) finish() {
	t.endFaults()
	t.mu.Lock()
	grants := t.grants
	t.mu.Unlock()
	var wg sync.WaitGroup
	workers := make(chan struct{}, 32)
	for _, g := range grants {
		workers <- struct{}{}
		wg.Go(func() {
			defer func() { <-workers }()
			defer t.recover()
			_ = g.Release(t.ctx)
		})
	}
	wg.Wait()
	t.cancel()
	t.others.Wait()
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// cleanup arranges for f to run at the end. The function that was added last runs first.
func (t *trial) cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// open returns a new client, which is closed at the end. It makes one request, so that a client that connects at its
// first request is connected. The result of the request does not matter.
func (t *trial) open() backend.Backend {
	b := t.dial()
	_, _ = b.Inspect(t.ctx, t.newKey())
	return b
}

// dial is open without the first request.
func (t *trial) dial() backend.Backend { return t.openWith(t.ctx) }

// openWith is dial with the given context.
func (t *trial) openWith(ctx context.Context) backend.Backend {
	begun := time.Now()
	b, err := t.h.Open(ctx)
	if err != nil { // how long a successful Open takes does not show how long requests take
		t.lateOnTimeout(err, begun)
		if kit.Ended(ctx) && t.ctx.Err() == nil {
			t.provesNothing("open with a context that had a deadline, which has passed: %v", err)
		}
		t.breaksText(openRule, "open: %v", err)
	}
	t.cleanup(func() {
		if err := b.Close(); err != nil {
			t.errorf("Close: %v", err)
		}
	})
	return b
}

// spawn runs f on a goroutine that the trial waits for.
func (t *trial) spawn(f func()) {
	t.others.Go(func() {
		defer t.recover()
		f()
	})
}

// together runs f n times at once, for 0 to n-1, and waits for all calls. If the check has failed, it ends the calling
// goroutine.
func (t *trial) together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer t.recover()
			f(i)
		})
	}
	wg.Wait()
	if t.ended() {
		runtime.Goexit()
	}
}

// turns is how many calls run at once in inTurns.
const turns = 16

// inTurns runs f for 0 to n-1, up to turns calls at once.
func (t *trial) inTurns(n int, f func(i int)) {
	workers := min(turns, n)
	t.together(workers, func(w int) {
		for i := w; i < n && !t.ended(); i += workers {
			f(i)
		}
	})
}

// inChunks runs f for 0 to n-1. A call of f may hold up to each leases. As many calls run at once as one client can
// have leases for.
func (t *trial) inChunks(n, each int, f func(i int)) {
	atOnce := max(1, t.h.Many/each)
	for from := 0; from < n; from += atOnce {
		t.together(min(atOnce, n-from), func(i int) { f(from + i) })
	}
}

// rounds counts from 0 to n-1. It stops early if the check has ended, or at end, so slow stores make fewer rounds.
func (t *trial) rounds(n int, end time.Time) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && !t.ended() && !time.Now().After(end) && yield(i); i++ {
		}
	}
}

// ended reports whether the check has failed or given up.
func (t *trial) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status != Pass
}

// hasFailed reports whether the check has failed. From then on, its result does not change.
func (t *trial) hasFailed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status == Fail
}

// errorf records a failure of the rule that the check proves; the check continues.
func (t *trial) errorf(format string, args ...any) { t.fail(t.rule, format, args...) }

// fatalf records a failure and ends the calling goroutine.
func (t *trial) fatalf(format string, args ...any) {
	t.errorf(format, args...)
	runtime.Goexit()
}

// notef records a measurement for the reader. It is not a failure.
func (t *trial) notef(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(&t.output, format+"\n", args...)
}

// tooLate ends the calling goroutine, and the trial is repeated with longer TTLs. What the message reports may be due
// to a slow machine. If every attempt sees the same, the rule that the check proves is broken.
func (t *trial) tooLate(format string, args ...any) { t.lateFor(t.rule, false, format, args...) }

// provesNothing is tooLate for an observation that is never a failure, however often it is made.
func (t *trial) provesNothing(format string, args ...any) { t.lateFor(t.rule, true, format, args...) }

// lateFor is tooLate, or provesNothing if harmless is set. rule is the rule that is broken if every attempt sees the
// same.
func (t *trial) lateFor(rule string, harmless bool, format string, args ...any) {
	where := checkLine()
	t.mu.Lock()
	if t.status == Pass {
		t.status, t.broken, t.seen, t.harmless = late, rule, format, harmless
	}
	t.output.WriteString(where + fmt.Sprintf(format, args...) + "\n")
	t.mu.Unlock()
	runtime.Goexit()
}

// skipf skips the check, because it does not apply to this store, and ends the calling goroutine.
func (t *trial) skipf(format string, args ...any) {
	t.skip(format, args...)
	runtime.Goexit()
}

func (t *trial) skip(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == Pass { // several goroutines may skip the check
		t.status = Skip
		fmt.Fprintf(&t.output, format+"\n", args...)
	}
}

// lacks is skipf for a missing hook, if only the check itself knows that it needs one.
func (t *trial) lacks(n Need, format string, args ...any) {
	t.mu.Lock()
	t.missing = n.Missing
	t.mu.Unlock()
	t.skipf(format, args...)
}
