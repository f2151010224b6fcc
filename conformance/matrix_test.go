package conformance_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/bugmatrix"
)

// matrixFile records which check finds which bug. "make evidence" sets ANYLOCK_UPDATE to write it. Each bug is tried on
// each check of its area (see areaOfBug), alone and in fake time. Only bugs and checks without a record are tried. To
// try all of them again, remove the file.
var matrixFile = filepath.Join("testdata", "matrix.tsv")

const (
	rowBug    = "ANYLOCK_MATRIX_BUG"    // makes this program try one bug
	rowChecks = "ANYLOCK_MATRIX_CHECKS" // on these checks
	found     = "matrix: found by "
	notFound  = "matrix: not found by "
)

// TestMatrixRow is the child process that tries one bug. In a usual run, it proves that the check of the first mutant
// fails on the mutant, and does not fail on a correct store.
func TestMatrixRow(t *testing.T) {
	bug, ok := os.LookupEnv(rowBug)
	if !ok {
		m := mutants[0]
		if !fails(t, m.bug, m.check) || fails(t, "", m.check) {
			t.Errorf("%s finds a store with %q and a right one alike", m.check, m.bug)
		}
		return
	}
	for _, check := range strings.Fields(os.Getenv(rowChecks)) {
		verdict := found
		for range 2 { // a check must find the bug twice, not by luck
			if !fails(t, bug, check) {
				verdict = notFound
				break
			}
		}
		fmt.Printf("\n%s%s\n", verdict, check)
	}
}

// fails reports whether check fails on the reference store with bug.
func fails(t *testing.T, bug, check string) (failed bool) {
	_ = conformance.InBubble(t, func(t *testing.T) { // ignore the error: a wrong store may do anything
		s := newServer(bug)
		defer close(s.stop)
		results, err := conformance.Execute(t.Context(), s.harness(), conformance.Options{Run: only(check)})
		failed = err == nil && len(results) == 1 && results[0].Status == conformance.Fail
	})
	return failed
}

// try tries bug on checks in child processes, and returns the checks that find it. A check that takes too much real
// time finds nothing: the bug stops fake time, because it keeps a processor busy or a mutex locked. A check that ends
// its process finds nothing either. After a few of those, the remaining checks are not tried, and find nothing. The
// core may then be larger than necessary, but it lacks no check.
func try(ctx context.Context, bug string, checks []string) (finders []string) {
	const (
		most    = 20 * time.Second // of real time for one check; most checks need milliseconds
		strikes = 3
	)
	for failed := 0; len(checks) > 0 && failed < strikes; failed++ {
		ctx, cancel := context.WithCancel(ctx)
		child := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestMatrixRow$", "-test.timeout", "0")
		child.Env = append(os.Environ(), rowBug+"="+bug, rowChecks+"="+strings.Join(checks, " "))
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			panic(err)
		}
		patience := time.AfterFunc(most, cancel)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			check, yes := strings.CutPrefix(lines.Text(), found)
			check, no := strings.CutPrefix(check, notFound)
			if yes {
				finders = append(finders, check)
			}
			if yes || no {
				patience.Reset(most)
				checks = checks[1:]
			}
		}
		patience.Stop()
		_ = child.Wait()
		cancel()
		if len(checks) > 0 {
			checks = checks[1:] // this check ended the process, or took too long
		}
	}
	return finders
}

// recordMatrix tries the pairs of bugs and checks that the matrix does not have, and writes the matrix row by row.
func recordMatrix(t *testing.T) {
	m, err := bugmatrix.Read(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	checks, bugs := names(conformance.Checks()), mutantBugs()
	known := slices.DeleteFunc(slices.Clone(m.Checks), func(c string) bool { return !slices.Contains(checks, c) })
	fresh := slices.DeleteFunc(slices.Clone(checks), func(c string) bool { return slices.Contains(m.Checks, c) })
	next := bugmatrix.Matrix{Checks: slices.Concat(known, fresh), Rows: make(map[string][]string)}
	var (
		mu    sync.Mutex
		all   sync.WaitGroup
		slots = make(chan struct{}, runtime.GOMAXPROCS(0))
	)
	for _, bug := range bugs {
		row, ok := m.Rows[bug]
		tried := fresh
		if !ok {
			tried = next.Checks
		}
		tried = slices.DeleteFunc(slices.Clone(tried), func(c string) bool { return areaOfBug(bug) != areaOfCheck(c) })
		row = slices.DeleteFunc(slices.Clone(row), func(c string) bool { return !slices.Contains(known, c) })
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			row = append(row, try(t.Context(), bug, tried)...)
			mu.Lock()
			defer mu.Unlock()
			// With new checks, write only at the end, because the rows that are not done yet would lack the new checks.
			if next.Rows[bug] = row; len(fresh) == 0 || len(m.Checks) == 0 {
				if err := next.Write(matrixFile); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := next.Write(matrixFile); err != nil {
		t.Fatal(err)
	}
}

// areaOfBug returns the group of checks on which bug is tried: "shared" or "resume" if the bug is in the table of that
// group. It is empty for other bugs, which are tried on the checks outside these groups. Trying all pairs takes hours.
func areaOfBug(bug string) string {
	is := func(m mutant) bool { return m.bug == bug }
	switch {
	case slices.ContainsFunc(sharedMutants, is), slices.ContainsFunc(amongReadersMutants, is),
		slices.ContainsFunc(readerEventMutants, is):
		return "shared"
	case slices.ContainsFunc(resumeMutants, is), slices.ContainsFunc(resumeCloseMutants, is),
		slices.ContainsFunc(amongResumedMutants, is), slices.ContainsFunc(resumedEventMutants, is):
		return "resume"
	}
	return ""
}

// areaOfCheck returns the group of a check on which only the bugs of that area are tried. It is empty for other checks.
func areaOfCheck(name string) string {
	checks := conformance.Checks()
	group := checks[slices.IndexFunc(checks, func(c conformance.Check) bool { return c.Name == name })].Group
	if group == "shared" || group == "resume" {
		return group
	}
	return ""
}

// mutantBugs lists each bug once.
func mutantBugs() (bugs []string) {
	for _, m := range mutants {
		if !slices.Contains(bugs, m.bug) {
			bugs = append(bugs, m.bug)
		}
	}
	return bugs
}

// TestMatrixRecord checks that the matrix contains exactly the current bugs and checks, and that the core finds every
// bug in the matrix.
func TestMatrixRecord(t *testing.T) {
	if os.Getenv("ANYLOCK_UPDATE") == "1" {
		recordMatrix(t)
		return // make evidence computes the core from the record next
	}
	m, err := bugmatrix.Read(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	sameNames(t, "check", m.Checks, names(conformance.Checks()))
	sameNames(t, "bug", m.Bugs(), mutantBugs())
	core := names(conformance.Core())
	for bug, finders := range m.Rows {
		if len(finders) == 0 { // no check finds the bug reliably: the core needs every check of its mutants
			for _, mutant := range mutants {
				if mutant.bug == bug && !slices.Contains(core, mutant.check) {
					t.Errorf("%q: the core lacks %s: run make evidence", bug, mutant.check)
				}
			}
		} else if !slices.ContainsFunc(finders, func(c string) bool { return slices.Contains(core, c) }) {
			t.Errorf("no check of the core finds %q, which %q find: run make evidence", bug, finders)
		}
	}
}

func sameNames(t *testing.T, what string, recorded, existing []string) {
	t.Helper()
	for _, name := range existing {
		if !slices.Contains(recorded, name) {
			t.Errorf("%s is out of date: it lacks the %s %q: run make evidence", matrixFile, what, name)
		}
	}
	for _, name := range recorded {
		if !slices.Contains(existing, name) {
			t.Errorf("%s is out of date: there is no %s %q any more: run make evidence", matrixFile, what, name)
		}
	}
}
