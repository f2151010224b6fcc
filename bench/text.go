package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/anylock/lock/backend/kit"
)

// WriteText writes the report as tables, one for each scenario, and explains their columns. A table shows medians, and
// for the scenario's main measure also the spread over rounds.
func (b *Report) WriteText(w io.Writer) error { return b.WriteTextWithin(w, 0) }

// WriteTextWithin is WriteText for a terminal of that width in characters; 0 means any width. It splits a wider table
// into several, one below the other.
func (b *Report) WriteTextWithin(w io.Writer, width int) error {
	var t strings.Builder
	fmt.Fprintf(&t, "%s, %s\n%s\n", b.Machine, b.Go, b.setting())
	for _, s := range b.Stores {
		fmt.Fprintf(&t, "%s: %s\n", kit.Printable(s.Name), kit.Printable(s.About))
	}
	for _, sc := range b.Scenarios {
		t.WriteByte('\n')
		fmt.Fprintf(&t, "%s: %s\n", sc.Name, sc.Title)
		b.writeTable(&t, sc, width)
	}
	b.writeWords(&t, width)
	if b.Interrupted {
		t.WriteString("\n" + b.interruption() + "\n")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// interruption describes which parts of an interrupted run are complete.
func (b *Report) interruption() string {
	if len(b.Results) == 0 {
		return "interrupted before anything was measured"
	}
	return "interrupted: what was measured until then"
}

// setting describes how the report was measured.
func (b *Report) setting() string {
	if b.Server == "" {
		return b.Settings.String()
	}
	return kit.Printable(b.Server) + ": " + b.Settings.String()
}

// String describes the settings.
func (s Settings) String() string {
	text := fmt.Sprintf("%s of %s, %s", plural(s.Rounds, "round"), duration(s.Duration), plural(s.Clients, "client"))
	if s.Workers > 0 {
		text += fmt.Sprintf(" with %s each", plural(s.Workers, "worker"))
	}
	switch {
	case s.Hold > 0:
		text += fmt.Sprintf(", a contended key held for %s", duration(s.Hold))
	case s.Hold < 0:
		text += ", a contended key released at once"
	}
	return text
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// writeTable writes the figures of a scenario, a line for each store.
func (b *Report) writeTable(t *strings.Builder, sc ScenarioInfo, width int) {
	view := b.table(sc.Name)
	rows := [][]string{{""}}
	for _, m := range view.Heads {
		rows[0] = append(rows[0], m.Name)
		if m.Name == sc.Main {
			rows[0] = append(rows[0], "spread")
		}
	}
	for _, r := range view.Rows {
		row := []string{"  " + r.Name}
		for i, cell := range r.Cells {
			row = append(row, cell.Text)
			if view.Heads[i].Name == sc.Main {
				row = append(row, cell.Spread)
			}
		}
		rows = append(rows, append(row, r.Remark))
	}
	align(t, rows, width)
}

// remark returns the remark on a result, on one line. A problem may contain text of a server.
func (r *Result) remark() string {
	switch {
	case r.Skipped != "":
		return "skipped: " + kit.Printable(r.Skipped)
	case r.Problem != "":
		return "failed: " + kit.Printable(strings.ReplaceAll(r.Problem, "\n", "; "))
	}
	return kit.Printable(r.Note)
}

// align writes rows as columns, with numbers aligned to the right. The remarks, which have no head, follow the last
// column. Columns that do not fit into the line follow below, each time after the first column.
func align(t *strings.Builder, rows [][]string, width int) {
	const gap = 2
	columns := len(rows[0])
	widths := make([]int, columns)
	for _, row := range rows {
		for i, cell := range row[:columns] {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for from := 1; from == 1 || from < columns; {
		to, wide := from, widths[0]
		for to < columns && (to == from || width == 0 || wide+gap+widths[to] <= width) {
			wide += gap + widths[to]
			to++
		}
		for _, row := range rows {
			line := fmt.Sprintf("%-*s", widths[0], row[0])
			for i := from; i < to; i++ {
				line += fmt.Sprintf("%*s", gap+widths[i], row[i])
			}
			if to == columns && len(row) > columns {
				line += "  " + row[columns]
			}
			t.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		from = max(to, 2)
	}
}

// Show returns v in the measure's unit, or a dash if v was not measured.
func (m Measure) Show(v float64, measured bool) string {
	if !measured {
		return "-"
	}
	switch m.Unit {
	case "s":
		return showTime(v)
	case "/s":
		return ShowNumber(v) + "/s"
	case "%":
		return ShowNumber(v) + " %"
	}
	return ShowNumber(v)
}

// ShowNumber returns v with three digits, or with spaces between thousands.
func ShowNumber(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		text := fmt.Sprintf("%.0f", v)
		var b strings.Builder
		for i, r := range text {
			if i > 0 && (len(text)-i)%3 == 0 {
				b.WriteByte(' ')
			}
			b.WriteRune(r)
		}
		return b.String()
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
}

// showTime returns seconds with three digits, in a suitable unit.
func showTime(seconds float64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}} {
		if seconds >= u.of {
			v := seconds / u.of
			switch {
			case v >= 100:
				return fmt.Sprintf("%.0f %s", v, u.name)
			case v >= 10:
				return fmt.Sprintf("%.1f %s", v, u.name)
			}
			return fmt.Sprintf("%.2f %s", v, u.name)
		}
	}
	return fmt.Sprintf("%.0f ns", seconds*1e9)
}

// spread returns how far the rounds were below and above the median.
func (f Figure) spread(measured bool) string {
	if !measured || f.Median == 0 {
		return "-"
	}
	down, up := 100*(f.Low-f.Median)/f.Median, 100*(f.High-f.Median)/f.Median
	return fmt.Sprintf("%+.0f %+.0f %%", down, up)
}

// WriteGoBench writes every round in the format of go test -bench, for benchstat. Times are in nanoseconds.
func (b *Report) WriteGoBench(w io.Writer) error {
	var t strings.Builder
	fmt.Fprintf(&t, "pkg: github.com/anylock/lock/bench\ncpu: %s\n", b.Machine)
	for _, r := range b.Results {
		for _, round := range r.Rounds {
			fmt.Fprintf(&t, "BenchmarkStores/scenario=%s/store=%s 1", r.Scenario, strings.ReplaceAll(r.Store, " ", "_"))
			for _, m := range Measures {
				v, ok := round[m.Name]
				if !ok {
					continue
				}
				unit := m.Name
				switch m.Unit {
				case "s":
					v, unit = v*1e9, m.Name+"-ns"
				case "/s":
					unit = m.Name + "/s"
				}
				fmt.Fprintf(&t, " %s %s", strconv.FormatFloat(v, 'g', -1, 64), unit)
			}
			t.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, t.String())
	return err
}
