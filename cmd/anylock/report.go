package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/anylock/lock/conformance"
)

// A suiteResult is what a run of the suite has found.
type suiteResult struct {
	driver  string
	results []conformance.Result
}

// write writes the report in a format.
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
	NoVerdict   int `json:"no_verdict,omitempty"` // on a machine that was too slow
	Skipped     int `json:"skipped"`
	NotProven   int `json:"not_proven,omitempty"`  // claims, not checks
	Interrupted int `json:"interrupted,omitempty"` // kept from an end by a signal
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

// writeSummary writes what follows the lines of the checks, which are printed as they end.
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

// resultText is what there is to print when a check ends: of those that were skipped nothing, as the summary lists
// them. A brief one leaves out those that passed: where the progress shows their number.
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
