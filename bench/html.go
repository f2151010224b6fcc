package bench

import (
	_ "embed"
	"io"

	"github.com/anylock/lock/backend/kit"
)

// pageHead is the page up to its body, with the styles. The body is not built with html/template, because a program
// that links html/template keeps every exported method of every type, which makes the command a third larger.
//
//go:embed page_head.html
var pageHead string

// WriteHTML writes the report as one self-contained page: styles and charts are inside, and there are no scripts.
func (b *Report) WriteHTML(w io.Writer) error {
	p := new(page)
	p.add(pageHead, "<h1>Locks side by side</h1>\n")
	p.add(`<p class="soft">`, esc(b.Time.Format("2 January 2006, 15:04")), " · ", esc(b.Machine), " · ", esc(b.Go),
		"</p>\n")
	p.add(`<p class="soft">`, esc(b.setting()), "; medians over rounds, in which the stores took turns</p>\n")
	if b.Interrupted {
		p.add(`<div class="card warn">`, esc(b.interruption()), "</div>\n")
	}
	p.add(`<div class="stores">`)
	for i, s := range b.Stores {
		p.add(`<div class="small">`, dot(i%colors), "<b>", esc(s.Name), `</b> <span class="soft">`, esc(s.About),
			"</span></div>")
	}
	p.add("</div>\n")
	p.overview(b)
	for _, sc := range b.Scenarios {
		p.scenario(b.scenarioView(sc))
	}
	p.words(b.Measures)
	p.add("</main>\n</body>\n</html>\n")
	_, err := io.WriteString(w, p.String())
	return err
}

// colors is the number of store colors in the page's style.
const colors = 8

// A rowView is a line of a table.
type rowView struct {
	Name   string // of the scenario or store
	Color  int
	Cells  []cellView
	Remark string
}

type cellView struct {
	Text   string
	Spread string
	Best   bool
}

// A table contains a scenario's figures, with a row for each store.
type table struct {
	Heads []Measure
	Rows  []rowView
}

type scenarioView struct {
	ScenarioInfo
	Charts []string // SVG
	table
}

// overviewRow compares the stores by the main measure of a scenario.
func (b *Report) overviewRow(sc ScenarioInfo) rowView {
	m := measureNamed(sc.Main)
	row := rowView{Name: sc.Name, Remark: m.Name}
	for _, s := range b.Stores {
		f, ok := b.Figure(sc.Name, s.Name, m)
		row.Cells = append(row.Cells, cellView{Text: m.Show(f.Median, ok), Best: ok && b.best(sc.Name, s.Name, m)})
	}
	return row
}

// best reports whether a store's figure is better than every other store's, so clearly that their rounds do not
// overlap.
func (b *Report) best(scenario, store string, m Measure) bool {
	f, _ := b.Figure(scenario, store, m)
	others := 0
	for _, s := range b.Stores {
		other, ok := b.Figure(scenario, s.Name, m)
		switch {
		case !ok || s.Name == store:
			continue
		case m.More && f.Low <= other.High, !m.More && f.High >= other.Low:
			return false
		}
		others++
	}
	return others > 0
}

// table returns the table of a scenario, with the measures that any store has.
func (b *Report) table(scenario string) table {
	t := table{Heads: b.measuresOf(scenario)}
	for i, s := range b.Stores {
		r := b.Result(scenario, s.Name)
		if r == nil {
			continue
		}
		row := rowView{Name: kit.Printable(s.Name), Color: i % colors, Remark: r.remark()}
		for _, m := range t.Heads {
			f, ok := r.Figures[m.Name]
			row.Cells = append(row.Cells, cellView{Text: m.Show(f.Median, ok), Spread: f.spread(ok), Best: ok &&
				b.best(scenario, s.Name, m)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (b *Report) scenarioView(sc ScenarioInfo) scenarioView {
	v := scenarioView{ScenarioInfo: sc, table: b.table(sc.Name)}
	charted := []Measure{measureNamed(sc.Main)}
	if sc.Main == Rate.Name {
		charted = append(charted, P99)
	}
	for _, m := range charted {
		if bars := b.bars(sc.Name, m); len(bars) > 0 {
			v.Charts = append(v.Charts, chart(m, bars))
		}
	}
	return v
}

func measureNamed(name string) Measure {
	for _, m := range Measures {
		if m.Name == name {
			return m
		}
	}
	return Measure{Name: name}
}

// bars returns the bars of a chart, for the stores that have the measure.
func (b *Report) bars(scenario string, m Measure) (bars []bar) {
	for i, s := range b.Stores {
		if f, ok := b.Figure(scenario, s.Name, m); ok {
			bars = append(bars, bar{s.Name, i % colors, f})
		}
	}
	return bars
}
