package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anylock/lock/conformance"
)

// summary returns the page about the suite's own tests.
func (f *findings) summary() string {
	var b strings.Builder
	core := f.core()
	b.WriteString(generated + "# What the suite finds\n\n")
	b.WriteString(wrap(fmt.Sprintf("Package conformance has %d checks. Each check is proven by at least one bug that it "+
		"must find:", len(f.checks))))
	b.WriteString("\n" + item(fmt.Sprintf("%d **mutants**: the suite's reference store, each with one bug. The check "+
		"fails for the mutant and passes "+
		"for the reference store. Every run of `go test ./conformance` proves this.", f.bugs())))
	b.WriteString(item(fmt.Sprintf("%d **[specimens](specimens.md)**: well-known wrong ways to lock, each a small store "+
		"on a real server. "+
		"The check fails for the specimen and passes for its twin, the same store without the bug. The tests of "+
		"[conformance/specimens](../conformance/specimens) prove this.", f.specimens())))
	b.WriteString("\n" + wrap("Every check has a mutant. [The full table](evidence/kill-table.md) lists each bug with "+
		"its check and the rule.") + "\n")
	b.WriteString("| group | checks | in the core | mutants that they must find | specimens " +
		"|\n|---|---:|---:|---:|---:|\n")
	for _, g := range f.groups() {
		checks := f.inGroup(g)
		inCore := 0
		for _, c := range checks {
			if slices.Contains(core, c) {
				inCore++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", g, len(checks), inCore, f.mutantsOf(checks), f.specimensOf(checks))
	}
	b.WriteString("\n" + wrap("If checks of several groups must find a mutant or specimen, it counts in each group.") +
		"\n## The core\n\n")
	b.WriteString(wrap(fmt.Sprintf("Every check also ran on each of the %d mutants. In %d of these pairs the check "+
		"found the bug. "+
		"%d checks are enough to find every bug: the [core](evidence/core.md), which `conformance.Core`, "+
		"`conformance.RunCore` and "+
		"`anylock conform --core` select.", len(f.matrix.Rows), f.matrix.Findings(), len(core))))
	b.WriteString("\n## How to update these pages\n\n" +
		wrap("`make evidence` runs each pair of mutant and check that has no record yet, in fake "+
			"time, and the specimens on their servers. Then it writes this page, "+
			"[conformance/core_generated.go](../conformance/core_generated.go) and the tables in [evidence](evidence). `make "+
			"evidence FRESH=1` runs all "+
			"mutants again. `make docs` writes the pages from the records."))
	return b.String()
}

// index returns the page that lists the specimens.
func (f *findings) index() string {
	var b strings.Builder
	b.WriteString(generated + "# Wrong ways to lock\n\n")
	b.WriteString(wrap(fmt.Sprintf("These %d ways to lock appear in tutorials, libraries and production code. They work "+
		"until something fails. "+
		"Each is a small store on a real server, in [conformance/specimens](../conformance/specimens), and differs in one "+
		"step from a correct "+
		"store, its twin. Each link shows this step, the report of the conformance suite, and the right way. `make "+
		"evidence` records the "+
		"reports; [what the suite finds](kill-table.md) counts them.", f.specimens())))
	for _, c := range f.collections {
		fmt.Fprintf(&b, "\n## %s (%d)\n\n", c.Store, len(c.Specimens))
		for _, s := range c.Specimens {
			fmt.Fprintf(&b, "- [%s](evidence/specimens.md#%s)\n", s.Title, anchor(c, s))
		}
	}
	return b.String()
}

// item returns text as a wrapped item of a list.
func item(text string) string {
	return "- " + strings.ReplaceAll(strings.TrimSuffix(wrap(text), "\n"), "\n", "\n  ") + "\n"
}

func (f *findings) specimens() (n int) {
	for _, c := range f.collections {
		n += len(c.Specimens)
	}
	return n
}

// groups lists the groups in the order of the suite.
func (f *findings) groups() (groups []string) {
	for _, c := range conformance.Checks() {
		if !slices.Contains(groups, c.Group) {
			groups = append(groups, c.Group)
		}
	}
	return groups
}

func (f *findings) inGroup(group string) (checks []string) {
	for _, c := range conformance.Checks() {
		if c.Group == group {
			checks = append(checks, c.Name)
		}
	}
	return checks
}

// mutantsOf counts the bugs that at least one of checks must find.
func (f *findings) mutantsOf(checks []string) int {
	bugs := make(map[string]bool)
	for _, m := range f.mutants {
		if slices.Contains(checks, m.Check) {
			bugs[m.Bug] = true
		}
	}
	return len(bugs)
}

// specimensOf counts the specimens that at least one of checks must find.
func (f *findings) specimensOf(checks []string) (n int) {
	for _, c := range f.collections {
		for _, s := range c.Specimens {
			if slices.ContainsFunc(s.finders(), func(check string) bool { return slices.Contains(checks, check) }) {
				n++
			}
		}
	}
	return n
}
