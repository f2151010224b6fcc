package bench

import (
	"fmt"
	"strings"
)

// MarkdownTable returns the table of a scenario for a page of documentation. It shows medians, and for the main measure
// also the spread over rounds.
func (b *Report) MarkdownTable(scenario string) string {
	var t strings.Builder
	view, main := b.table(scenario), b.main(scenario)
	t.WriteString("| store |")
	for _, m := range view.Heads {
		t.WriteString(" " + m.Name + " |")
	}
	t.WriteString(" |\n|---|" + strings.Repeat("---:|", len(view.Heads)) + "---|\n")
	for _, r := range view.Rows {
		t.WriteString("| " + r.Name + " |")
		for i, cell := range r.Cells {
			text := cell.Text
			if view.Heads[i] == main && cell.Spread != "-" {
				text += " (" + cell.Spread + ")"
			}
			t.WriteString(" " + text + " |")
		}
		t.WriteString(" " + strings.ReplaceAll(r.Remark, "|", "\\|") + " |\n")
	}
	return t.String()
}

// main returns the main measure of a scenario.
func (b *Report) main(scenario string) Measure {
	for _, s := range b.Scenarios {
		if s.Name == scenario {
			return measureNamed(s.Main)
		}
	}
	return Measure{}
}

// chartStyle contains the page's styles for a chart in its own file. It sets no background, so the chart suits light
// and dark pages.
const chartStyle = `<style>
text{fill:#1d2129;font:12px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}.head{font-weight:650;font-size:13px}.sub{fill:#5d6673;font-size:11px}
.whisker{stroke:#1d2129;stroke-width:1.3;opacity:.55;fill:none}
.c0{fill:#2f6fde}.c1{fill:#e0782f}.c2{fill:#1f9d75}.c3{fill:#9a56c9}.c4{fill:#c9a227}.c5{fill:#d24f72}.c6{fill:#4aa3b8}.c7{fill:#7b8794}
@media (prefers-color-scheme:dark){text{fill:#e8eaee}.sub{fill:#9aa4b2}.whisker{stroke:#e8eaee}}
</style>`

// ChartFile returns the chart of a scenario's main measure as an SVG file. It returns "" if no store has the measure.
func (b *Report) ChartFile(scenario string) string {
	m := b.main(scenario)
	bars := b.bars(scenario, m)
	if len(bars) == 0 {
		return ""
	}
	svg := string(chart(m, bars))
	head, rest, _ := strings.Cut(svg, ">")
	return fmt.Sprintf("%s xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\">%s%s\n", head, 1.5*chartWidth, chartStyle,
		rest)
}
