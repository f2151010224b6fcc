package conformance_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/anylock/lock/conformance"
)

func TestMain(m *testing.M) {
	// Failing checks leave pictures of histories.
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", dir)
	goleak.VerifyTestMain(whole{m}, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// whole is a run of all tests that ends when killed processes have.
type whole struct{ *testing.M }

func (w whole) Run() int {
	defer dying.Wait()
	return w.M.Run()
}

// TestReference runs the suite on a store that keeps every rule and has every hook.
func TestReference(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(*testing.T) conformance.Harness { return newServer("").harness() })
}

// only selects one check.
func only(check string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(check) + "$")
}

// TestMutants proves the suite: every bug is found by the check that is there for it, and every check finds a bug.
func TestMutants(t *testing.T) {
	t.Parallel()
	var (
		slots = make(chan struct{}, 40)
		all   sync.WaitGroup
	)
	for _, m := range mutants {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			begun := time.Now()
			s := newServer(m.bug)
			defer close(s.stop)
			results, err := conformance.Execute(t.Context(), s.harness(),
				conformance.Options{Run: only(m.check), Timeout: 20 * time.Second})
			switch {
			case err != nil:
				t.Errorf("%s: %v", m.bug, err)
			case len(results) != 1:
				t.Errorf("%s: there is no check %s", m.bug, m.check)
			case results[0].Status != conformance.Fail:
				t.Errorf("%s survives %s: %s\n%s", m.bug, m.check, results[0].Status, results[0].Output)
			case testing.Verbose():
				t.Logf("%s: found by %s in %v: %.300s", m.bug, m.check, time.Since(begun).Round(time.Millisecond), results[0].Output)
			}
		})
	}
	all.Wait()
	for _, c := range conformance.Checks() {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.check == c.Name }) {
			t.Errorf("no mutant proves that %s can fail", c.Name)
		}
	}
}

// TestMutantsTable keeps MUTANTS.md as the table above tells it. Set ANYLOCK_UPDATE=1 to write it.
func TestMutantsTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What the suite finds\n\n" +
		"Each line is a bug, built into a store that is right otherwise, and a check that fails for it. TestMutants proves\n" +
		"every line, and that every check finds a bug. This file is written by `ANYLOCK_UPDATE=1 go test -run MutantsTable`.\n\n" +
		"| bug | found by | rule |\n|---|---|---|\n")
	rules := make(map[string]string)
	for _, c := range conformance.Checks() {
		rules[c.Name] = c.Rule
	}
	for _, m := range mutants {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.bug, m.check, rules[m.check])
	}
	const file = "MUTANTS.md"
	if os.Getenv("ANYLOCK_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != b.String() {
		t.Errorf("%s is out of date (error %v): set ANYLOCK_UPDATE=1", file, err)
	}
}
