package main

import (
	"strings"
	"testing"

	"github.com/anylock/lock/conformance"
)

// A check without a verdict counts neither as a pass nor as a failure. The report shows why there is no verdict, and no
// broken rule.
func TestReportsShowMissingVerdicts(t *testing.T) {
	r := conformance.Result{Name: "FIFO", Group: "waiting", Rule: "rule 9: x", Status: conformance.NoVerdict,
		Output: "this process stood still for 3s"}
	for format, want := range map[string]string{
		"text": "; 1 check without a verdict\n", "json": `"no_verdict": 1`,
		"junit": `<error message="no verdict">this process stood still`,
	} {
		var b strings.Builder
		if err := (suiteResult{"store", []conformance.Result{r}}).write(&b, format); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", format, want, b.String())
		}
	}
	if text := resultText(r, true); !strings.HasPrefix(text, "no verdict waiting/FIFO") ||
		!strings.Contains(text, r.Output) || strings.Contains(text, r.Rule) {
		t.Errorf("shown as\n%s", text)
	}
}

// A report of JUnit has no characters that are not printable, not even from a store's errors.
func TestJUnitIsPrintable(t *testing.T) {
	const odd = "a\u009b2J\u202e\x1bb"
	var b strings.Builder
	err := writeJUnit(&b, suiteResult{"store", []conformance.Result{
		{Name: "One", Status: conformance.Fail, Output: odd}, {Name: "Two", Status: conformance.Skip, Output: odd},
		{Name: "Three", Interrupted: true, Output: odd},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\u009b\u202e\ufffd") || strings.Count(b.String(), "a 2J  b") != 3 {
		t.Errorf("%q", b.String())
	}
}

// A claim that no check could test appears in every format, and counts neither as a pass nor as a failure.
func TestReportsTellOfClaims(t *testing.T) {
	results := []conformance.Result{
		{Name: "One", Rule: "rule 1: x", Status: conformance.Pass},
		{Name: "Two", Rule: "rule 9: y", Status: conformance.Fail, Broken: "rule 1: x", Output: "fifo.go:1: double grant"},
		{Name: "Guarantees.Fencing", Rule: "tokens survive", Status: conformance.NotProven,
			Output: "not proven: needs Harness.Restart", Missing: "Harness.Restart"},
		{Name: "Guarantees.EnforcedBy", Rule: "clocks", Status: conformance.NotProven,
			Output: "not proven: Three was skipped: no skew"},
	}
	for _, test := range []struct {
		format string
		want   []string
	}{
		{"text", []string{"claimed but not proven", "Guarantees.Fencing: tokens survive: needs Harness.Restart\n",
			"proven:\n     Guarantees.Fencing", "Guarantees.EnforcedBy: clocks: Three was skipped: no skew\n",
			"store: 1 passed, 1 failed, 0 skipped; 2 claims not proven\n"}},
		{"json", []string{`"not_proven": 2`, `"output": "not proven: Three was skipped: no skew"`, `"status": "not proven"`,
			`"missing": "Harness.Restart"`, `"broken": "rule 1: x"`}},
		{"junit", []string{`skipped="2"`, `<skipped message="not proven: Three was skipped: no skew: clocks">`,
			`<skipped message="not proven: needs Harness.Restart: tokens survive">`, `<failure message="rule 1: x">`}},
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
