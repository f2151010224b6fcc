package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/anylock/lock/conformance"
)

// junitSuites is the root element. JUnit's format has no official definition: these types use the elements and
// attributes that every reader knows.
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
	Error   *junitMessage `xml:"error,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func writeJUnit(w io.Writer, s suiteResult) error {
	n := count(s.results)
	suite := junitSuite{
		Name: "anylock conformance: " + s.driver, Tests: len(s.results),
		Failures: n.Failed, Errors: n.Interrupted + n.NoVerdict, Skipped: n.Skipped + n.NotProven,
	}
	total := time.Duration(0)
	for _, r := range s.results {
		total += r.Duration
		c := junitCase{Class: junitClass(s.driver, r), Name: r.Name, Time: junitTime(r.Duration)}
		switch {
		case r.Status == conformance.Fail:
			c.Failure = &junitMessage{Message: cmp.Or(r.Broken, r.Rule), Text: r.Output}
		case r.Status == conformance.NoVerdict:
			c.Error = &junitMessage{Message: "no verdict", Text: r.Output}
		case r.Interrupted: // reported as an error, so that nobody mistakes an interrupted run for a complete one
			c.Error = &junitMessage{Message: "interrupted", Text: r.Output}
		case r.Status == conformance.NotProven:
			c.Skipped = &junitMessage{Message: r.Output + ": " + r.Rule}
		case r.Status == conformance.Skip:
			c.Skipped = &junitMessage{Message: r.Output}
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Time = junitTime(total)
	for i := range suite.Cases {
		suite.Cases[i].clean()
	}
	text, err := xml.MarshalIndent(junitSuites{Suite: suite}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

// clean replaces characters that are not printable in texts that may come from a store.
func (c *junitCase) clean() {
	for _, m := range []*junitMessage{c.Failure, c.Error, c.Skipped} {
		if m == nil {
			continue
		}
		m.Message = oneLine(m.Message)
		lines := strings.Split(m.Text, "\n")
		for i, line := range lines {
			lines[i] = oneLine(line)
		}
		m.Text = strings.Join(lines, "\n")
	}
}

// junitClass returns the class name, by which readers of the format group cases.
func junitClass(driver string, r conformance.Result) string {
	return "anylock.conformance." + driver + "." + cmp.Or(r.Group, "unproven")
}

func junitTime(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
