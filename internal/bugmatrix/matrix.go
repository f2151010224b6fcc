// Package bugmatrix stores which check of the conformance suite finds which bug, and computes the core of the suite
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
	// from each bug to the checks that find it, in the order of Checks; none if only chance finds it
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

// add adds what the fields of a line say.
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

// Write replaces file. Each check is one line and has the number of its line, from 0; each bug is one line with the
// numbers of the checks that find it.
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
