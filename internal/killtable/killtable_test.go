package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/anylock/lock/internal/moduleroot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func findingsOf(t *testing.T) (dir string, f *findings) {
	t.Helper()
	dir, err := moduleroot.Find()
	if err != nil {
		t.Fatal(err)
	}
	if f, err = read(dir); err != nil {
		t.Fatal(err)
	}
	return dir, f
}

func TestDocumentsAreUpToDate(t *testing.T) {
	dir, f := findingsOf(t)
	for name, want := range f.documents() {
		if have, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || string(have) != want {
			t.Errorf(`%s is out of date (error %v): run "make docs"`, name, err)
		}
	}
}

// Every package of specimens has a record, and every check has a mutant.
func TestNothingIsMissing(t *testing.T) {
	dir, f := findingsOf(t)
	packages, err := filepath.Glob(filepath.Join(dir, "conformance", "specimens", "*", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range packages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		record := filepath.Join(filepath.Dir(file), recordFile)
		if _, err := os.Stat(record); err != nil && strings.Contains(string(text), "specimens.Prove(") {
			t.Errorf(`%v: run "make evidence"`, err)
		}
	}
	for check := range f.checks {
		if !slices.ContainsFunc(f.mutants, func(m mutant) bool { return m.Check == check }) {
			t.Errorf("no mutant is found by %s", check)
		}
	}
}

func TestWrongFindingsAreRefused(t *testing.T) {
	_, f := findingsOf(t)
	delete(f.collections[0].source, f.collections[0].Specimens[0].Sin[0])
	if err := f.validate(); err == nil || !strings.Contains(err.Error(), "does not declare") {
		t.Errorf("%v, want an error that names the step", err)
	}
	f.mutants = append(f.mutants, mutant{"a bug", "NoSuchCheck"})
	if err := f.validate(); err == nil || !strings.Contains(err.Error(), "NoSuchCheck") {
		t.Errorf("%v, want an error that names the check", err)
	}
}

// A bug that several checks find is counted once.
func TestBugsAreCountedOnce(t *testing.T) {
	f := &findings{mutants: []mutant{{"one", "A"}, {"one", "B"}, {"other", "A"}}}
	if n := f.bugs(); n != 2 {
		t.Errorf("%d bugs, want 2", n)
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 60)
	for line := range strings.Lines(wrap(long)) {
		if n := len(strings.TrimSuffix(line, "\n")); n > 120 {
			t.Errorf("a line of %d", n)
		}
	}
	if got := strings.Join(strings.Fields(wrap(long)), " "); got != strings.TrimSpace(long) {
		t.Errorf("words got lost: %q", got)
	}
}
