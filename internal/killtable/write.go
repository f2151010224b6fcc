package main

import (
	"fmt"
	"strings"
)

// documents returns the generated files, by their names below the folder of the module.
func (f *findings) documents() map[string]string {
	return map[string]string{
		"docs/kill-table.md":            f.summary(),
		"docs/specimens.md":             f.index(),
		"docs/evidence/kill-table.md":   f.killTable(),
		"docs/evidence/specimens.md":    f.gallery(),
		"docs/evidence/core.md":         f.corePage(),
		"conformance/core_generated.go": f.coreSource(),
	}
}

const generated = "<!-- Written by \"make docs\" from what \"make evidence\" recorded. Do not edit. -->\n"

func (f *findings) killTable() string {
	var b strings.Builder
	b.WriteString(generated + "# What each check finds\n\n")
	b.WriteString(wrap("Each line is a bug and a check that must find it. [What the suite finds](../kill-table.md) " +
		"explains and summarizes this table."))
	b.WriteString("\n## Specimens\n\n| store | wrong way | found by | what that proves |\n|---|---|---|---|\n")
	for _, c := range f.collections {
		for _, s := range c.Specimens {
			for _, k := range s.Kills {
				f.row(&b, k.Check, c.Store, fmt.Sprintf("[%s](specimens.md#%s)", s.Title, anchor(c, s)))
			}
		}
	}
	b.WriteString("\n## Mutants\n\n| bug | found by | what that proves |\n|---|---|---|\n")
	for _, m := range f.mutants {
		f.row(&b, m.Check, m.Bug)
	}
	return b.String()
}

// row writes a line of a table: the bug, and the check that finds it.
func (f *findings) row(b *strings.Builder, check string, wrong ...string) {
	c := f.checks[check]
	for _, c := range append(wrong, c.Path(), c.Rule) {
		b.WriteString("| " + strings.ReplaceAll(c, "|", "\\|") + " ")
	}
	b.WriteString("|\n")
}

func (f *findings) gallery() string {
	var b strings.Builder
	b.WriteString(generated + "# Wrong ways to lock, in full\n\n")
	b.WriteString(wrap("The specimens on this page are ways to lock that appear in tutorials, libraries and production " +
		"code, and that work until " +
		"something fails. Each is a small store on the real server, in " +
		"[conformance/specimens](../../conformance/specimens), and differs " +
		"from a correct store, its twin, in the step shown. Below each specimen is the last recorded report of the " +
		"conformance suite. The " +
		"twin passes the same checks. [Wrong ways to lock](../specimens.md) is the list."))
	for _, c := range f.collections {
		fmt.Fprintf(&b, "\n## %s\n", c.Store)
		for _, s := range c.Specimens {
			f.section(&b, c, s)
		}
	}
	return b.String()
}

// section writes the section of one specimen.
func (f *findings) section(b *strings.Builder, c collection, s specimen) {
	fmt.Fprintf(b, "\n<a id=\"%s\"></a>\n\n### %s\n\n", anchor(c, s), s.Title)
	b.WriteString(wrap(s.Story))
	b.WriteString("\n" + wrap("See: "+s.See+"."))
	b.WriteString("\nThe wrong step:\n\n")
	code(b, c, s.Sin)
	for _, k := range s.Kills {
		b.WriteString("\n" + wrap(fmt.Sprintf("`%s` finds it (%s):", k.Check, f.checks[k.Check].Rule)))
		fmt.Fprintf(b, "\n```text\n%s\n```\n", k.Evidence)
	}
	b.WriteString("\n" + wrap("The right way: "+s.Right) + "\n")
	code(b, c, s.Virtue)
}

func code(b *strings.Builder, c collection, names []string) {
	b.WriteString("```go\n")
	for i, name := range names {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(c.source[name] + "\n")
	}
	b.WriteString("```\n")
}

// anchor returns the anchor of a specimen's section.
func anchor(c collection, s specimen) string {
	return strings.ReplaceAll(strings.ToLower(c.Store), " ", "-") + "-" + s.Name
}

// wrap breaks a paragraph into lines.
func wrap(text string) string {
	const width = 120
	var b strings.Builder
	length := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case length+1+len(word) > width:
			b.WriteString("\n")
			length = 0
		default:
			b.WriteString(" ")
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String() + "\n"
}

// bugs counts the different bugs. A bug that several checks find counts once.
func (f *findings) bugs() int {
	seen := make(map[string]bool)
	for _, m := range f.mutants {
		seen[m.Bug] = true
	}
	return len(seen)
}
