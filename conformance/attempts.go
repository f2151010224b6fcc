package conformance

import (
	"fmt"
	"slices"
	"time"
)

// mostStretch is the largest factor by which TTLs are lengthened on a slow machine. It is smaller for a store that does
// not grant TTLs of that length: see mostStretched.
const mostStretch = 16

// attempt runs c. As long as the result is late, which proves nothing, it repeats c with longer TTLs.
func (s *suite) attempt(c Check) outcome {
	var lates []outcome
	for n := 1; ; n = s.budget.nextStretch(n) {
		stretch := min(n, s.stretch)
		t := newTrial(s, c, stretch)
		if s.labelled != nil {
			s.labelled(t.label, c)
		}
		end := t.perform()
		if end.status != late {
			return end
		}
		lates = append(lates, end)
		if n >= mostStretch || s.budget.endReason() != nil {
			return verdictOf(lates, stretch)
		}
		s.recovers(n)
	}
}

// verdictOf returns the outcome of a check whose attempts were all too late to prove anything. stretch is the factor of
// the TTLs in the last attempt. The check has failed in two cases: every attempt saw the same problem, or the machine
// was not slow in the last attempt. A harmless observation is never a failure.
func verdictOf(lates []outcome, stretch int) outcome {
	last := lates[len(lates)-1]
	slowest := time.Duration(0)
	for _, l := range lates {
		slowest = max(slowest, l.stood)
	}
	differs := func(l outcome) bool { return l.harmless || l.seen != last.seen }
	same := len(lates) > 1 && !slices.ContainsFunc(lates, differs)
	attempts := fmt.Sprintf("%d attempts, the last with TTLs %d times as long", len(lates), stretch)
	slow := ""
	if slowest > 0 {
		slow = fmt.Sprintf("; the machine was slow: this process stood still for up to %v", slowest.Round(time.Millisecond))
	}
	switch {
	case same:
		return outcome{status: Fail, broken: last.broken, output: last.output + "\nthe same was seen in each of " + attempts +
			slow}
	case !last.harmless && last.stood == 0:
		return outcome{status: Fail, broken: last.broken, output: last.output + "\nno better was seen in " + attempts}
	}
	return outcome{status: NoVerdict, output: "nothing wrong was shown in " + attempts + slow + "\n" + last.output}
}

// limit returns the time limit of an attempt whose TTLs are stretch times as long as usual.
func (s *suite) limit(stretch int) time.Duration {
	const (
		slower = 2  // how many times slower a machine that needs longer TTLs may be
		leases = 20 // expiries that a check may wait for
	)
	short := (&trial{g: s.g, stretch: 1}).short()
	return s.timeout*time.Duration(min(stretch, slower)) + leases*time.Duration(stretch-1)*short
}
