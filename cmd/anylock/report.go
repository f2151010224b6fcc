package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/anylock/lock/conformance"
)

// A report prints the results of the conformance suite: as they come in, or all at the end.
type report struct {
	w      io.Writer
	format string
}

func newReport(w io.Writer, format *choice) *report { return &report{w, format.word} }

func (p *report) observe(r conformance.Result) {
	if p.format == "text" {
		writeResultText(p.w, r)
	}
}

func (p *report) finish(driver string, results []conformance.Result) error {
	switch p.format {
	case "json":
		return writeJSON(p.w, newSuiteRecord(driver, results))
	case "junit":
		return writeJUnit(p.w, driver, results)
	}
	n := count(results)
	_, err := fmt.Fprintf(p.w, "%s: %d passed, %d failed, %d skipped\n", driver, n.Passed, n.Failed, n.Skipped)
	return err
}

func writeResultText(w io.Writer, r conformance.Result) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Status, r.Name)
	switch r.Status {
	case conformance.Skip:
		fmt.Fprintf(&b, ": %s\n", r.Output)
	case conformance.Fail:
		fmt.Fprintf(&b, " (%s)\n     rule: %s\n", shortDuration(r.Duration), r.Rule)
		for line := range strings.Lines(r.Output) {
			b.WriteString("     " + strings.TrimRight(line, "\n") + "\n")
		}
	default:
		fmt.Fprintf(&b, " (%s)\n", shortDuration(r.Duration))
	}
	io.WriteString(w, b.String()) //nolint:errcheck // the summary reports it
}

type counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

func count(results []conformance.Result) (n counts) {
	for _, r := range results {
		switch r.Status {
		case conformance.Pass:
			n.Passed++
		case conformance.Fail:
			n.Failed++
		default:
			n.Skipped++
		}
	}
	return n
}

type suiteRecord struct {
	Backend string `json:"backend"`
	counts
	Results []resultRecord `json:"results"`
}

type resultRecord struct {
	Name    string  `json:"name"`
	Rule    string  `json:"rule"`
	Status  string  `json:"status"`
	Output  string  `json:"output,omitempty"`
	Seconds float64 `json:"seconds"`
}

func newSuiteRecord(driver string, results []conformance.Result) suiteRecord {
	s := suiteRecord{Backend: driver, counts: count(results), Results: []resultRecord{}}
	for _, r := range results {
		s.Results = append(s.Results, resultRecord{r.Name, r.Rule, string(r.Status), r.Output, r.Duration.Seconds()})
	}
	return s
}

// The JUnit format has no authority; these are the elements and attributes that every reader knows.
type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func writeJUnit(w io.Writer, driver string, results []conformance.Result) error {
	n := count(results)
	suite := junitSuite{Name: "anylock conformance: " + driver, Tests: len(results), Failures: n.Failed, Skipped: n.Skipped}
	total := time.Duration(0)
	for _, r := range results {
		total += r.Duration
		c := junitCase{Class: "anylock.conformance." + driver, Name: r.Name, Time: junitTime(r.Duration)}
		switch r.Status {
		case conformance.Fail:
			c.Failure = &junitMessage{Message: r.Rule, Text: r.Output}
		case conformance.Skip:
			c.Skipped = &junitMessage{Message: r.Output}
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Time = junitTime(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(junitSuites{Suite: suite}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitTime(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
