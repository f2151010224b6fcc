package main

import (
	"strings"
	"testing"

	"github.com/anylock/lock/conformance"
)

// A claim that no check could test is told of in every format, and counts neither as a pass nor as a failure.
func TestReportsTellOfClaims(t *testing.T) {
	results := []conformance.Result{
		{Name: "One", Rule: "rule 1: x", Status: conformance.Pass},
		{Name: "Two", Rule: "rule 9: y", Status: conformance.Fail, Broken: "rule 1: x", Output: "fifo.go:1: double grant"},
		{Name: "Guarantees.Fencing", Rule: "tokens survive", Status: conformance.NotProven, Output: "not proven: needs Harness.Restart", Missing: "Harness.Restart"},
		{Name: "Guarantees.EnforcedBy", Rule: "clocks", Status: conformance.NotProven, Output: "not proven: Three was skipped: no skew"},
	}
	for _, test := range []struct {
		format string
		want   []string
	}{
		{"text", []string{"claimed but not proven", "Guarantees.Fencing: tokens survive: needs Harness.Restart\n",
			"proven:\n     Guarantees.Fencing", "Guarantees.EnforcedBy: clocks: Three was skipped: no skew\n",
			"store: 1 passed, 1 failed, 0 skipped; 2 claims not proven\n"}},
		{"json", []string{`"not_proven": 2`, `"output": "not proven: Three was skipped: no skew"`, `"status": "not proven"`, `"missing": "Harness.Restart"`, `"broken": "rule 1: x"`}},
		{"junit", []string{`skipped="2"`, `<skipped message="not proven: Three was skipped: no skew: clocks">`, `<skipped message="not proven: needs Harness.Restart: tokens survive">`, `<failure message="rule 1: x">`}},
	} {
		var b strings.Builder
		if err := (suiteResult{"store", results}).write(&b, test.format); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", test.format, want, b.String())
			}
		}
	}
}
