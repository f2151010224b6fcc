package bench

import (
	"bytes"
	"cmp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// reportOf is a report with figures of stores named a, b, …, of one scenario.
func reportOf(figures ...map[string]Figure) *Report {
	b := newReport(Options{Rounds: 5, Duration: time.Second, Clients: 8}, selected([]string{"serial"}, Options{}))
	for i, f := range figures {
		name := string(rune('a' + i))
		b.Stores = append(b.Stores, StoreInfo{Name: name})
		b.Results = append(b.Results, &Result{Scenario: "serial", Store: name, Figures: f, Rounds: []Sample{{}}})
	}
	return b
}

// Only what is better than all others is the best; what is equal is not.
func TestBest(t *testing.T) {
	t.Parallel()
	one := func(low, median, high float64) map[string]Figure {
		return map[string]Figure{Rate.Name: {Median: median, Low: low, High: high},
			P50.Name: {Median: median, Low: low, High: high}}
	}
	for _, c := range []struct {
		figures    []map[string]Figure
		more, less string
	}{
		{[]map[string]Figure{one(9, 10, 11), one(1, 2, 3)}, "a", "b"},
		{[]map[string]Figure{one(9, 10, 11), one(1, 2, 9)}, "", ""},
		{[]map[string]Figure{one(3, 3, 3), one(3, 3, 3), one(1, 1, 1)}, "", "c"},
		{[]map[string]Figure{one(3, 3, 3), one(3, 3, 3), one(4, 4, 4)}, "c", ""},
		{[]map[string]Figure{one(3, 3, 3)}, "", ""},
		{[]map[string]Figure{one(3, 3, 3), {}}, "", ""},
	} {
		b := reportOf(c.figures...)
		found := func(m Measure) (names string) {
			for _, s := range b.Stores {
				if _, ok := b.Figure("serial", s.Name, m); ok && b.best("serial", s.Name, m) {
					names += s.Name
				}
			}
			return names
		}
		if more, less := found(Rate), found(P50); more != c.more || less != c.less {
			t.Errorf("%v: the highest is %q, the lowest %q; want %q, %q", c.figures, more, less, c.more, c.less)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Rounds: 5, Duration: 60 * time.Millisecond, Clients: 8}, "5 rounds of 60ms, 8 clients"},
		{Options{Rounds: 1, Duration: time.Second, Clients: 64, Workers: 1, Hold: time.Millisecond},
			"1 round of 1s, 64 clients with 1 worker each, a contended key held for 1ms"},
		{Options{Rounds: 2, Duration: time.Second, Clients: 1, Workers: 2, Hold: -1},
			"2 rounds of 1s, 1 client with 2 workers each, a contended key released at once"},
	} {
		if got := newReport(c.o, nil).Settings.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// On a narrow terminal no line of a table is broken by it, and no figure is missing.
func TestNarrow(t *testing.T) {
	t.Parallel()
	figures := make(map[string]Figure)
	for i, m := range Measures {
		figures[m.Name] = Figure{Median: 1000 + float64(i), Low: 900, High: 2000}
	}
	b := reportOf(figures, figures)
	b.Machine = ""
	var wide, narrow bytes.Buffer
	if err := b.WriteText(&wide); err != nil {
		t.Fatal(err)
	}
	const width = 50
	if err := b.WriteTextWithin(&narrow, width); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(narrow.String(), "again\n")
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	for word := range strings.FieldsSeq(wide.String()) {
		if strings.Count(wide.String(), word) > strings.Count(narrow.String(), word) {
			t.Errorf("%q is missing in\n%s", word, &narrow)
		}
	}
}

// The text report explains each of its columns, and no other, within the width of the terminal.
func TestTextExplainsColumns(t *testing.T) {
	t.Parallel()
	shown := []Measure{Rate, P99, Jain, Work}
	figures := make(map[string]Figure)
	for _, m := range shown {
		figures[m.Name] = Figure{Median: 1, Low: 1, High: 1}
	}
	for _, width := range []int{0, 40, 80} {
		var b bytes.Buffer
		if err := reportOf(figures).WriteTextWithin(&b, width); err != nil {
			t.Fatal(err)
		}
		_, words, _ := strings.Cut(b.String(), "\nWhat the columns mean:\n")
		for line := range strings.Lines(words) {
			if n := utf8.RuneCountInString(line) - 1; n > cmp.Or(width, usualWidth) {
				t.Errorf("width %d: %d characters: %s", width, n, line)
			}
		}
		unwrapped := strings.Join(strings.Fields(words), " ")
		for _, m := range append(shown, Measure{Name: "spread", About: spreadAbout}) {
			if !strings.Contains(unwrapped, m.Name+" "+m.About) {
				t.Errorf("width %d: no explanation of %s in\n%s", width, m.Name, &b)
			}
		}
		for _, m := range []Measure{P50, Max, CPU, Goroutines} {
			if strings.Contains(words, "  "+m.Name+" ") {
				t.Errorf("width %d: %s is explained, and no table has it", width, m.Name)
			}
		}
	}
	empty := reportOf()
	var b bytes.Buffer
	if err := empty.WriteText(&b); err != nil || strings.Contains(b.String(), "What the columns mean") {
		t.Errorf("a report without figures explains columns (%v):\n%s", err, &b)
	}
}
