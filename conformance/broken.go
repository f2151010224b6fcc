package conformance

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/anylock/lock/backend"
)

// ruleTexts are the rules of package backend. A failure names one of these if it breaks a rule that its check does not
// prove.
var ruleTexts = [...]string{
	1:  "rule 1: exclusive: on one key no two leases overlap between grant and deadline or release",
	3:  "rule 3: the key of a dead holder is free by the granted TTL plus Guarantees.MaxLate",
	4:  "rule 4: a cancelled or expired context leaves nothing behind, and the error is the context's",
	5:  "rule 5: Renew never revives; Renew and Release by a stale lease never touch the new holder",
	6:  "rule 6: Lost closes at the deadline, not before and not later",
	7:  "rule 7: tokens strictly increase per key",
	8:  "rule 8: keys are any bytes, and share nothing with each other",
	9:  "rule 9: no waiter stays parked on a free key",
	10: "rule 10: leases and waiters cost O(1) goroutines and connections, and Close leaks nothing",
}

// Promises of methods. Any check may find one of these broken.
const (
	openRule    = "Harness.Open opens a new client of the store"
	answerRule  = "Backend: a store that is up answers requests"
	ttlRule     = "rule 3: a TTL is a minimum: a lease lives for its TTL, counted from before its request was sent"
	grantRule   = "Backend.Acquire: a free key is granted"
	refuseRule  = "Backend.Acquire: a held key is ErrHeld"
	inspectRule = "Backend.Inspect returns the holder of a key"
	examineRule = "Examiner.Examine returns findings that have a code and say what was found"
	renewRule   = "Lease.Renew: a live lease is renewed, without an error"
	releaseRule = "Lease.Release: a live lease is given up, without an error, and its key is free"
	closeRule   = "Backend.Close returns in a bounded time, without an error"

	closeEndsRule = "Backend.Close: the keys of the client's leases become free when their TTL runs out"
)

// breaks records that a rule of package backend is broken, and ends the calling goroutine.
func (t *trial) breaks(rule int, format string, args ...any) {
	t.breaksText(t.ruleText(rule), format, args...)
}

func (t *trial) ruleText(rule int) string {
	if slices.Contains(ruleNumbers(t.rule), rule) {
		return t.rule // the check's rule is more detailed
	}
	return ruleTexts[rule]
}

// breaksText is breaks for a promise of a method.
func (t *trial) breaksText(rule, format string, args ...any) {
	t.fail(rule, format, args...)
	runtime.Goexit()
}

// doubleGrant records that a key had two owners at once, and ends the calling goroutine. The result is a failure of
// rule 1, even if the trial was too late or had failed by another rule before.
func (t *trial) doubleGrant(format string, args ...any) {
	rule := t.ruleText(1)
	t.fail(rule, "double grant: "+format, args...)
	t.mu.Lock()
	t.status, t.broken = Fail, rule
	t.mu.Unlock()
	runtime.Goexit()
}

// fail records that rule is broken. In a trial that is already late, it records only the message: the check is repeated
// anyway.
func (t *trial) fail(rule, format string, args ...any) {
	where := checkLine()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != late {
		if t.status != Fail {
			t.broken = rule
		}
		t.status = Fail
	}
	t.output.WriteString(where + fmt.Sprintf(format, args...) + "\n")
}

// notGranted records that key, which must be free, was not granted, and ends the calling goroutine. If the holder that
// the store reports has requested another key, the store treats both keys as one, and rule 8 is broken.
func (t *trial) notGranted(what, key string, err error) {
	if shared := t.sharedWith(key); errors.Is(err, backend.ErrHeld) && shared != "" {
		t.breaks(8, "%s: %v%s", what, err, shared)
	}
	t.breaksText(grantRule, "%s: %v", what, err)
}

// sharedWith inspects key. If the holder has requested another key, sharedWith returns a text that names the other key,
// otherwise an empty string.
func (t *trial) sharedWith(key string) string {
	h, err := t.b.Inspect(t.ctx, key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, ours := t.keyOf[h.Owner]; err == nil && ours && other != key {
		return fmt.Sprintf("; the key %s shares a lock with the key %s, whose holder has it", show(key), show(other))
	}
	return ""
}

// helperFiles lists the files with helpers of the suite. checkLine omits the lines in these files if it finds a line in
// another file.
var helperFiles = []string{"trial.go", "pulse.go", "execute.go", "attempts.go", "run.go", "grant.go", "wait.go",
	"ways.go"}

// checkLine returns the place in the suite that its caller was called from, as in "fifo.go:97: ". If several functions
// of the suite called each other, it lists the line in each, as in "loss_callbacks.go:70 > loss_callbacks.go:93: ". The
// list begins at the function of the current goroutine, not at the code that started the goroutine.
func checkLine() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var lines, helpers []string
	inner := "" // the previous function in lines
	for {
		f, more := frames.Next()
		if file := path.Base(f.File); strings.HasPrefix(f.Function, packagePath+".") {
			line := fmt.Sprintf("%s:%d", file, f.Line)
			switch {
			case file == "broken.go", strings.HasPrefix(inner, f.Function+"-range"): // a loop whose body is listed already
			case slices.Contains(helperFiles, file):
				helpers = append(helpers, line)
			default:
				lines = append(lines, line)
				inner = f.Function
			}
		}
		if !more {
			break
		}
	}
	if len(lines) == 0 {
		lines = helpers[:min(len(helpers), 1)]
	}
	slices.Reverse(lines)
	return strings.Join(lines, " > ") + ": "
}

const packagePath = "github.com/anylock/lock/conformance"
