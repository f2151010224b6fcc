package guaranteestable

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// A row is one property of every store.
type row struct {
	name string
	of   func(d driver.Driver) string
}

var rows = []row{
	{"scope", func(d driver.Driver) string { return reach(d.Guarantees.Reach) }},
	{"exclusion", func(d driver.Driver) string { return d.Guarantees.Consistency.String() }},
	{"the store may drop a live lease", func(d driver.Driver) string { return earlyLoss(d.Guarantees) }},
	{"a holder learns soon that its lease was removed",
		func(d driver.Driver) string { return yes(d.Guarantees.ReportsLoss) }},
	{"expiry is measured by", func(d driver.Driver) string { return d.Guarantees.EnforcedBy }},
	{"shortest TTL", func(d driver.Driver) string { return duration(d.Guarantees.MinTTL) }},
	{"longest TTL", func(d driver.Driver) string { return most(d.Guarantees.MaxTTL, "10 years") }},
	{"a disconnected holder keeps its key for at most",
		func(d driver.Driver) string { return most(d.Guarantees.MaxSilence, "its TTL") }},
	{"TTLs are rounded up to", func(d driver.Driver) string { return duration(d.Guarantees.Granularity) }},
	{"leases per client", func(d driver.Driver) string { return number(d.Guarantees.MaxLeases) }},
	{"after the TTL, a dead holder's key is free within",
		func(d driver.Driver) string { return d.Guarantees.MaxLate.String() }},
	{"waiters get the key", func(d driver.Driver) string { return waiting(d.Guarantees) }},
	{"readers can share a key", func(d driver.Driver) string { return yes(d.Guarantees.Shared) }},
	{"fencing tokens grow across", func(d driver.Driver) string { return fencing(d.Guarantees.Fencing) }},
	{"requests per acquire, renewal, release", func(d driver.Driver) string {
		return d.RoundTrips.Acquire + ", " + d.RoundTrips.Renew + ", " + d.RoundTrips.Release
	}},
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func number(n int) string {
	if n == 0 {
		return "any number"
	}
	return strconv.Itoa(n)
}

// Text writes a paragraph for each driver.
func Text(w io.Writer, drivers []driver.Driver) error {
	var b strings.Builder
	for i, d := range drivers {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s (%s)\n", d.Name, strings.Join(d.Schemes(), ", "))
		for _, example := range d.Examples {
			fmt.Fprintf(&b, "  %s\n", example)
		}
		for _, p := range params(d) {
			fmt.Fprintf(&b, "  ?%s=%s  %s\n", p.Name, p.Type, p.Help)
		}
		if d.OtherParams != "" {
			fmt.Fprintf(&b, "  other parameters: those of %s\n", d.OtherParams)
		}
		for _, r := range rows {
			fmt.Fprintf(&b, "  %s: %s\n", r.name, r.of(d))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown writes a table with a column for each driver. Texts that are too long for a cell follow below the table.
func Markdown(w io.Writer, drivers []driver.Driver) error {
	var b, notes strings.Builder
	b.WriteString("| |")
	for _, d := range drivers {
		fmt.Fprintf(&b, " %s |", cell(d.Name))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(drivers)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.name)
		first := true
		for _, d := range drivers {
			text := r.of(d)
			if len(text) <= longestCell {
				fmt.Fprintf(&b, " %s |", cell(text))
				continue
			}
			b.WriteString(" see below |")
			if first {
				fmt.Fprintf(&notes, "\n%s:\n\n", capital(r.name))
				first = false
			}
			fmt.Fprintf(&notes, "- %s: %s\n", cell(d.Name), cell(text))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String()+notes.String())
	return err
}

// ChoiceMarkdown writes a table of the facts that decide between stores, with a row for each driver.
func ChoiceMarkdown(w io.Writer, drivers []driver.Driver) error {
	var b strings.Builder
	b.WriteString("| store | scope | can a store failure let in a second holder? | waiters | shortest TTL " +
		"|\n|---|---|---|---|---|\n")
	for _, d := range drivers {
		g, second := d.Guarantees, "yes: check the token"
		switch {
		case g.Consistency == backend.Linearizable && g.EarlyLoss == "":
			second = "no"
		case g.Fencing < backend.FencingRestart:
			second = "yes, and tokens may repeat then"
		}
		order := "any order, they poll"
		if g.FIFO {
			order = "first come, first served"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(d.Name), reach(g.Reach), second, order, duration(g.MinTTL))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// longestCell is the number of bytes above which a cell makes a table hard to read.
const longestCell = 60

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// URLsMarkdown writes a table of the URLs that drivers accept, with a row for each example.
func URLsMarkdown(w io.Writer, drivers []driver.Driver) error {
	var b strings.Builder
	b.WriteString("| store | URL |\n|---|---|\n")
	for _, d := range drivers {
		urls := make([]string, 0, len(d.Examples))
		for _, example := range d.Examples {
			urls = append(urls, "`"+strings.ReplaceAll(example, "|", "%7C")+"`")
		}
		fmt.Fprintf(&b, "| %s | %s |\n", cell(d.Name), strings.Join(urls, "<br>"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ParamsMarkdown writes a table of the parameters of the URLs of one driver, with a row for each.
func ParamsMarkdown(w io.Writer, d driver.Driver) error {
	var b strings.Builder
	b.WriteString("| parameter | meaning |\n|---|---|\n")
	for _, p := range params(d) {
		fmt.Fprintf(&b, "| `%s=%s` | %s |\n", p.Name, strings.ReplaceAll(p.Type, "|", `\|`), cell(p.Help))
	}
	if d.OtherParams != "" {
		fmt.Fprintf(&b, "| others | those of %s |\n", d.OtherParams)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell escapes s for a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("\\", `\\`, "|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
}
