package main

import (
	"fmt"
	"strings"

	"github.com/anylock/lock/conformance"
)

// ruleTitles are short titles for the rules of package backend. The first is for checks of a method or a guarantee.
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

// rulesOf returns the rules under which the summary counts r, as indexes of ruleTitles.
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

// byRule counts the results of each rule. A check that tests several rules counts for each of them.
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

// writeNotProven lists the claims of the store that no check has tested.
func writeNotProven(b *strings.Builder, results []conformance.Result) {
	lines := ""
	for _, r := range results {
		if r.Status == conformance.NotProven {
			lines += fmt.Sprintf("     %s: %s: %s\n", r.Name, oneLine(r.Rule),
				strings.TrimPrefix(oneLine(r.Output), "not proven: "))
		}
	}
	writeSection(b, "claimed but not proven:", lines)
}

func writeSection(b *strings.Builder, title, lines string) {
	if lines != "" {
		b.WriteString(title + "\n" + lines + "\n")
	}
}

// A lack is the reason why checks were skipped: missing if they need something, otherwise reason.
type lack struct{ missing, reason string }

// writeSkipped lists why checks were skipped: for a guarantee that the store does not promise, for a missing hook or
// optional interface, or for another reason.
func writeSkipped(b *strings.Builder, results []conformance.Result) {
	var lacks []lack // in the order of the checks
	checks := make(map[lack][]string)
	for _, r := range results {
		if r.Status != conformance.Skip || r.Interrupted {
			continue
		}
		l := lack{missing: r.Missing}
		if r.Missing == "" {
			l.reason = r.Output
		}
		if checks[l] == nil {
			lacks = append(lacks, l)
		}
		checks[l] = append(checks[l], r.Name)
	}
	var guarantees, hooks, others string
	for _, l := range lacks {
		switch n := len(checks[l]); {
		case l.missing == "":
			others += fmt.Sprintf("%4d %s: %s\n", n, oneLine(l.reason), strings.Join(checks[l], ", "))
		case conformance.Need{Missing: l.missing}.Guarantee():
			guarantees += fmt.Sprintf("%4d %s\n", n, l.missing)
		default:
			hooks += fmt.Sprintf("%4d %s\n", n, l.missing)
		}
	}
	writeSection(b, "skipped, because the store does not promise it:", guarantees)
	writeSection(b, "skipped, because a hook or an optional method is missing (docs/write-a-backend.md):", hooks)
	writeSection(b, "skipped:", others)
}
