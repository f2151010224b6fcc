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

// A resultPrinter prints results in one format: as they come in, and all at the end.
type resultPrinter interface {
	result(w io.Writer, r conformance.Result)
	finish(w io.Writer, s suiteResult) error
}

func newResultPrinter(format *choice, brief bool) resultPrinter {
	switch format.word {
	case "json":
		return jsonPrinter{}
	case "junit":
		return junitPrinter{}
	}
	return textPrinter{brief}
}

// atTheEnd is the part of a printer that prints nothing before the end.
type atTheEnd struct{}

func (atTheEnd) result(io.Writer, conformance.Result) {}

type counts struct {
	Passed      int `json:"passed"`
	Failed      int `json:"failed"`
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
	case r.Interrupted:
		n.Interrupted++
	case r.Status == conformance.NotProven:
		n.NotProven++
	default:
		n.Skipped++
	}
}

func (n counts) sum() int { return n.Passed + n.Failed + n.Skipped + n.Interrupted }

func count(results []conformance.Result) (n counts) {
	for _, r := range results {
		n.add(r)
	}
	return n
}

// A textPrinter prints a line for each check, those that were skipped in the summary alone. A brief one leaves out those that
// passed: where the progress shows their number.
type textPrinter struct{ brief bool }

func (p textPrinter) result(w io.Writer, r conformance.Result) {
	if r.Status == conformance.Fail || r.Status == conformance.Pass && !p.brief {
		writeResultText(w, r)
	}
}

func (p textPrinter) finish(w io.Writer, s suiteResult) error {
	var b strings.Builder
	if !p.brief {
		b.WriteString("\n")
	}
	writeRules(&b, s.results)
	writeSkipped(&b, s.results)
	writeNotProven(&b, s.results)
	n := count(s.results)
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped", s.driver, n.Passed, n.Failed, n.Skipped)
	if n.NotProven > 0 {
		fmt.Fprintf(&b, "; %s not proven", plural(n.NotProven, "claim"))
	}
	b.WriteString("\n")
	if n.Interrupted > 0 {
		fmt.Fprintf(&b, "interrupted: %s without a result\n", plural(n.Interrupted, "check"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeResultText(w io.Writer, r conformance.Result) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s (%s)\n", r.Status, r.Group, r.Name, shortDuration(r.Duration))
	if r.Status == conformance.Fail {
		fmt.Fprintf(&b, "     %s\n", cmp.Or(r.Broken, r.Rule))
		for line := range strings.Lines(r.Output) {
			b.WriteString("     " + strings.TrimRight(oneLine(line), " ") + "\n")
		}
	}
	io.WriteString(w, b.String()) //nolint:errcheck // the summary reports it
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
