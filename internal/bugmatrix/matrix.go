// Package bugmatrix records which check of the conformance suite finds which bug, and computes the core of the suite
// from these records.
package bugmatrix

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Matrix records which checks find each bug. Every bug was tried on every check.
type Matrix struct {
	Checks []string // the checks that were tried, in the order in which they were first recorded
	// the checks that find each bug, in the order of Checks; empty if the bug is found only by chance
	Rows map[string][]string
}

// Read reads a file that Write wrote. If there is no such file, the Matrix is empty.
func Read(file string) (Matrix, error) {
	m := Matrix{Rows: make(map[string][]string)}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(text)) {
		if err := m.add(strings.Split(strings.TrimSuffix(line, "\n"), "\t")); err != nil {
			return m, fmt.Errorf("%s: %q: %w", file, line, err)
		}
	}
	return m, nil
}

// add adds the check or the bug in the fields of a line.
func (m *Matrix) add(fields []string) error {
	switch {
	case len(fields) == 2 && fields[0] == "check":
		m.Checks = append(m.Checks, fields[1])
		return nil
	case len(fields) == 3 && fields[0] == "bug":
		row := []string{}
		for _, word := range strings.Fields(fields[2]) {
			i, err := strconv.Atoi(word)
			if err != nil || i < 0 || i >= len(m.Checks) {
				return errors.New("no check has this number")
			}
			row = append(row, m.Checks[i])
		}
		m.Rows[fields[1]] = row
		return nil
	}
	return errors.New("neither a check nor a bug")
}

// Write replaces file. It writes one line for each check, numbered from 0, and one line for each bug, with the numbers
// of the checks that find it.
func (m Matrix) Write(file string) error {
	var b bytes.Buffer
	number := make(map[string]int)
	for i, c := range m.Checks {
		number[c] = i
		fmt.Fprintf(&b, "check\t%s\n", c)
	}
	for _, bug := range m.Bugs() {
		var words []string
		for _, c := range m.Rows[bug] {
			words = append(words, strconv.Itoa(number[c]))
		}
		fmt.Fprintf(&b, "bug\t%s\t%s\n", bug, strings.Join(words, " "))
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// Bugs lists the bugs in alphabetical order.
func (m Matrix) Bugs() []string {
	var bugs []string
	for bug := range m.Rows {
		bugs = append(bugs, bug)
	}
	slices.Sort(bugs)
	return bugs
}

// Findings counts the pairs of a bug and a check that finds it.
func (m Matrix) Findings() (n int) {
	for _, row := range m.Rows {
		n += len(row)
	}
	return n
}
