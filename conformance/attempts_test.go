package conformance

import (
	"strings"
	"testing"
	"time"
)

// verdictOf reports a broken rule if every attempt saw the same problem, or if the machine was not slow in the last
// attempt. It mentions a slow machine only if the machine was slow.
func TestVerdictOfLateAttempts(t *testing.T) {
	over := outcome{status: late, broken: ttlRule, seen: "over", output: "x.go:1: the lease was over"}
	silent := outcome{status: late, broken: answerRule, seen: "silent", output: "x.go:2: no answer"}
	stood := outcome{status: late, broken: "rule 9: x", seen: "parked; %s", output: "x.go:3: this process stood still"}
	stood.harmless, stood.stood = true, time.Second
	restart := outcome{status: late, broken: "rule 3: x", seen: "restart", output: "x.go:4: the restart took long"}
	restart.harmless = true
	onSlow := func(o outcome) outcome { o.stood = time.Second; return o }
	for _, test := range []struct {
		what   string
		lates  []outcome
		status Status
		broken string
		slow   bool
	}{
		{"the same each time", []outcome{over, over, over}, Fail, ttlRule, false},
		{"the same each time, on a slow machine", []outcome{over, onSlow(over), over}, Fail, ttlRule, true},
		{"the same each time, always on a slow machine", []outcome{onSlow(over), onSlow(over)}, Fail, ttlRule, true},
		{"something else each time", []outcome{silent, over}, Fail, ttlRule, false},
		{"something else each time, the last on a slow machine", []outcome{silent, onSlow(over)}, NoVerdict, "", true},
		{"a machine that stood still", []outcome{stood, stood}, NoVerdict, "", true},
		{"a machine that stood still but for the last time", []outcome{stood, stood, over}, Fail, ttlRule, false},
		{"slow restarts", []outcome{restart, restart}, NoVerdict, "", false},
		{"one attempt", []outcome{onSlow(over)}, NoVerdict, "", true},
	} {
		end := verdictOf(test.lates, 16)
		last := test.lates[len(test.lates)-1]
		if end.status != test.status || end.broken != test.broken || !strings.Contains(end.output, last.output) {
			t.Errorf("%s: %s, broken %q, %s", test.what, end.status, end.broken, end.output)
		}
		if strings.Contains(end.output, "machine was slow") != test.slow {
			t.Errorf("%s: the machine is blamed, or not, in\n%s", test.what, end.output)
		}
		if end.status == Fail && !strings.HasPrefix(end.output, last.output) {
			t.Errorf("%s: what was seen does not come first in\n%s", test.what, end.output)
		}
	}
}
