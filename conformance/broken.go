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

// ruleTexts are the rules of package backend, for failures that break another one than their check proves.
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

// What methods promise, which any check may find broken.
const (
	openRule    = "Harness.Open opens a new client of the store"
	answerRule  = "Backend: a store that is up answers requests"
	ttlRule     = "rule 3: a TTL is a minimum: a lease lives for its TTL, counted from before its request was sent"
	grantRule   = "Backend.Acquire: a free key is granted"
	refuseRule  = "Backend.Acquire: a held key is ErrHeld"
	inspectRule = "Backend.Inspect returns the holder of a key"
	renewRule   = "Lease.Renew: a live lease is renewed, without an error"
	releaseRule = "Lease.Release: a live lease is given up, without an error, and its key is free"
	closeRule   = "Backend.Close returns in a bounded time, without an error"
)

// breaks records the failure of a rule of package backend, and ends the goroutine it is called on.
func (t *trial) breaks(rule int, format string, args ...any) {
	t.breaksText(t.ruleText(rule), format, args...)
}

func (t *trial) ruleText(rule int) string {
	if slices.Contains(ruleNumbers(t.rule), rule) {
		return t.rule // which says it in more detail
	}
	return ruleTexts[rule]
}

// breaksText is breaks for what a method promises.
func (t *trial) breaksText(rule, format string, args ...any) {
	t.fail(rule, format, args...)
	runtime.Goexit()
}

// doubleGrant records that a key has had two owners at once, and ends the goroutine it is called on. Rule 1 is the one
// that is broken then, whatever else was seen before, a lateness too.
func (t *trial) doubleGrant(format string, args ...any) {
	rule := t.ruleText(1)
	t.fail(rule, "double grant: "+format, args...)
	t.mu.Lock()
	t.status, t.broken = Fail, rule
	t.mu.Unlock()
	runtime.Goexit()
}

// fail records a failure of rule. What follows on a lateness is not a failure: the check is repeated.
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

// notGranted records that key, which must be free, was not granted, and ends the goroutine it is called on. Where the
// store says that its holder is an owner that requested another key, the store treats both keys as one, and rule 8 is
// broken.
func (t *trial) notGranted(what, key string, err error) {
	if shared := t.sharedWith(key); errors.Is(err, backend.ErrHeld) && shared != "" {
		t.breaks(8, "%s: %v%s", what, err, shared)
	}
	t.breaksText(grantRule, "%s: %v", what, err)
}

// sharedWith names the key that the holder of key in the store had requested, if it is another key.
func (t *trial) sharedWith(key string) string {
	h, err := t.b.Inspect(t.ctx, key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, ours := t.keyOf[h.Owner]; err == nil && ours && other != key {
		return fmt.Sprintf("; the key %s shares a lock with the key %s, whose holder has it", show(key), show(other))
	}
	return ""
}

// framework lists files that checkLine omits if a line of another file called them.
var framework = []string{"trial.go", "pulse.go", "execute.go", "attempts.go", "run.go", "grant.go", "wait.go",
	"ways.go"}

// checkLine is where in the suite its caller was called from: "fifo.go:97: ", or the lines of the functions that have
// called each other, as in "loss_callbacks.go:70 > loss_callbacks.go:93: ". What a goroutine does begins with the
// goroutine.
func checkLine() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var lines, helpers []string
	inner := "" // the function before
	for {
		f, more := frames.Next()
		if file := path.Base(f.File); strings.HasPrefix(f.Function, packagePath+".") {
			line := fmt.Sprintf("%s:%d", file, f.Line)
			switch {
			case file == "broken.go", strings.HasPrefix(inner, f.Function+"-range"): // the loop whose body is on record
			case slices.Contains(framework, file):
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
