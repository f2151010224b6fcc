package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anylock/lock/conformance"
)

// ruleTitles are the rules of package backend in a few words, the first for checks of what a method or guarantee says.
var ruleTitles = [...]string{
	"methods, errors, guarantees",
	"exclusive: never two leases on one key",
	"a deadline counts from before the request",
	"a TTL is a minimum, and frees a dead holder's key",
	"an error leaves nothing behind",
	"a stale lease touches nothing",
	"loss is reported in time",
	"tokens increase",
	"keys are any bytes",
	"no waiter is left behind",
	"leases are cheap, Close leaks nothing",
}

// rulesOf are the lines of the summary to which a result belongs.
func rulesOf(r conformance.Result) []int {
	var known []int
	for _, n := range r.Rules() {
		if n > 0 && n < len(ruleTitles) {
			known = append(known, n)
		}
	}
	if len(known) == 0 {
		return []int{0}
	}
	return known
}

// byRule counts the results of each rule. A check that proves several counts for each.
func byRule(results []conformance.Result) (n [len(ruleTitles)]counts) {
	for _, r := range results {
		if r.Status == conformance.NotProven {
			continue
		}
		for _, rule := range rulesOf(r) {
			n[rule].add(r)
		}
	}
	return n
}

// writeRules writes a table with a line for each rule that has results.
func writeRules(b *strings.Builder, results []conformance.Result) {
	width := 0
	for _, title := range ruleTitles {
		width = max(width, len(title))
	}
	fmt.Fprintf(b, "rule %-*s  passed  failed  skipped\n", width, "")
	table := byRule(results)
	line := func(rule int, name string) {
		if n := table[rule]; n.sum() > n.Interrupted {
			fmt.Fprintf(b, "%4s %-*s  %6d  %6d  %7d\n", name, width, ruleTitles[rule], n.Passed, n.Failed, n.Skipped)
		}
	}
	for rule := 1; rule < len(ruleTitles); rule++ {
		line(rule, fmt.Sprint(rule))
	}
	line(0, "-")
	b.WriteString("\n")
}

// writeNotProven lists what the store claims and no check has tested.
func writeNotProven(b *strings.Builder, results []conformance.Result) {
	title := "claimed but not proven:\n"
	for _, r := range results {
		if r.Status == conformance.NotProven {
			fmt.Fprintf(b, "%s     %s: %s: %s\n", title, r.Name, oneLine(r.Rule), strings.TrimPrefix(oneLine(r.Output), "not proven: "))
			title = ""
		}
	}
	if title == "" {
		b.WriteString("\n")
	}
}

// A lack is why checks were skipped.
type lack struct {
	missing string // as in conformance.Need
	reason  string
	checks  []string
}

// lacksOf groups the skipped checks by what they lacked, in the order of the checks; those skipped for another reason, by
// that.
func lacksOf(results []conformance.Result) (lacks []*lack) {
	for _, r := range results {
		if r.Status != conformance.Skip || r.Interrupted {
			continue
		}
		same := func(l *lack) bool { return l.missing == r.Missing && (r.Missing != "" || l.reason == r.Output) }
		i := slices.IndexFunc(lacks, same)
		if i < 0 {
			i = len(lacks)
			lacks = append(lacks, &lack{missing: r.Missing, reason: r.Output})
		}
		lacks[i].checks = append(lacks[i].checks, r.Name)
	}
	return lacks
}

// writeSkipped tells why checks were skipped: for want of a promise, which is the store's affair, of a hook, which is the
// caller's, or for another reason.
func writeSkipped(b *strings.Builder, results []conformance.Result) {
	guarantee := func(l *lack) bool { return conformance.Need{Missing: l.missing}.Guarantee() }
	groups := []struct {
		title  string
		member func(*lack) bool
	}{
		{"skipped, because the store does not promise it:", guarantee},
		{"skipped, because a hook is missing (docs/write-a-backend.md):", func(l *lack) bool { return l.missing != "" && !guarantee(l) }},
		{"skipped:", func(l *lack) bool { return l.missing == "" }},
	}
	lacks := lacksOf(results)
	for _, g := range groups {
		written := false
		for _, l := range lacks {
			if !g.member(l) {
				continue
			}
			if !written {
				b.WriteString(g.title + "\n")
				written = true
			}
			what, also := l.missing, ""
			if what == "" {
				what, also = oneLine(l.reason), ": "+strings.Join(l.checks, ", ")
			}
			fmt.Fprintf(b, "%4d %s%s\n", len(l.checks), what, also)
		}
		if written {
			b.WriteString("\n")
		}
	}
}
