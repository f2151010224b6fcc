package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/anylock/lock/conformance"
)

// A suiteResult is the result of one run of the suite.
type suiteResult struct {
	driver  string
	results []conformance.Result
}

// write writes the report in the given format.
func (s suiteResult) write(w io.Writer, format string) error {
	switch format {
	case "json":
		return writeJSON(w, newSuiteRecord(s))
	case "junit":
		return writeJUnit(w, s)
	}
	return writeSummary(w, s)
}

type counts struct {
	Passed      int `json:"passed"`
	Failed      int `json:"failed"`
	NoVerdict   int `json:"no_verdict,omitempty"` // because the machine was too slow
	Skipped     int `json:"skipped"`
	NotProven   int `json:"not_proven,omitempty"`  // claims, not checks
	Interrupted int `json:"interrupted,omitempty"` // ended early, by a signal or by the suite
}

func (n *counts) add(r conformance.Result) {
	switch {
	case r.Status == conformance.Pass:
		n.Passed++
	case r.Status == conformance.Fail:
		n.Failed++
	case r.Status == conformance.NoVerdict:
		n.NoVerdict++
	case r.Interrupted:
		n.Interrupted++
	case r.Status == conformance.NotProven:
		n.NotProven++
	default:
		n.Skipped++
	}
}

func (n counts) sum() int { return n.Passed + n.Failed + n.NoVerdict + n.Skipped + n.Interrupted }

func count(results []conformance.Result) (n counts) {
	for _, r := range results {
		n.add(r)
	}
	return n
}

// writeSummary writes the summary. The lines of the checks precede it, because each is printed when its check ends.
func writeSummary(w io.Writer, s suiteResult) error {
	var b strings.Builder
	writeRules(&b, s.results)
	writeSkipped(&b, s.results)
	writeNotProven(&b, s.results)
	n := count(s.results)
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped", s.driver, n.Passed, n.Failed, n.Skipped)
	if n.NotProven > 0 {
		fmt.Fprintf(&b, "; %s not proven", plural(n.NotProven, "claim"))
	}
	if n.NoVerdict > 0 {
		fmt.Fprintf(&b, "; %s without a verdict", plural(n.NoVerdict, "check"))
	}
	b.WriteString("\n")
	if n.Interrupted > 0 {
		fmt.Fprintf(&b, "interrupted: %s without a result\n", plural(n.Interrupted, "check"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// resultText returns the text to print when a check ends. It is empty for a skipped check, because the summary lists
// those. If brief is set, it is also empty for a passed check, because the live line counts those.
func resultText(r conformance.Result, brief bool) string {
	unproven := r.Status == conformance.Fail || r.Status == conformance.NoVerdict
	if !unproven && (brief || r.Status != conformance.Pass) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s (%s)\n", r.Status, r.Group, r.Name, shortDuration(r.Duration))
	if r.Status == conformance.Fail {
		fmt.Fprintf(&b, "     %s\n", cmp.Or(r.Broken, r.Rule))
	}
	if unproven {
		for line := range strings.Lines(r.Output) {
			b.WriteString("     " + strings.TrimRight(oneLine(line), " ") + "\n")
		}
	}
	return b.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
