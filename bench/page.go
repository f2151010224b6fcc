package bench

import (
	"strconv"
	"strings"
)

// A page is HTML under construction. Text that is not markup must go through esc.
type page struct{ strings.Builder }

func (p *page) add(parts ...string) {
	for _, part := range parts {
		p.WriteString(part)
	}
}

// dot returns a dot in the color of a store.
func dot(color int) string { return `<span class="dot c` + strconv.Itoa(color) + `"></span>` }

func (p *page) overview(b *Report) {
	p.add("\n<section class=\"card\">\n<h2>Overview</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>scenario</th>")
	for _, s := range b.Stores {
		p.add("<th>", esc(s.Name), "</th>")
	}
	p.add("</tr></thead>\n<tbody>")
	for _, sc := range b.Scenarios {
		row := b.overviewRow(sc)
		p.add(`<tr><td><a href="#`, esc(row.Name), `" style="color:inherit">`, esc(row.Name),
			`</a> <span class="soft small">`,
			esc(row.Remark), "</span></td>")
		for _, c := range row.Cells {
			p.cell(c, "")
		}
		p.add("</tr>\n")
	}
	p.add("</tbody></table></div>\n</section>\n")
}

func (p *page) scenario(v scenarioView) {
	p.add("\n<section class=\"card\" id=\"", esc(v.Name), "\">\n<h2>", esc(v.Name), "</h2>\n<p class=\"soft\">",
		esc(v.Title), "</p>\n")
	p.add(`<div class="charts">`)
	for _, chart := range v.Charts {
		p.add("<div>", chart, "</div>")
	}
	p.add("</div>\n<div class=\"scroll\"><table>\n<thead><tr><th>store</th>")
	for _, m := range v.Heads {
		p.add(`<th title="`, esc(m.About), `">`, esc(m.Name), "</th>")
	}
	p.add("<th></th></tr></thead>\n<tbody>")
	for _, row := range v.Rows {
		p.add("<tr><td>", dot(row.Color), esc(row.Name), "</td>")
		for _, c := range row.Cells {
			p.cell(c, "<small>"+esc(c.Spread)+"</small>")
		}
		p.add(`<td class="remark">`, esc(row.Remark), "</td></tr>\n")
	}
	p.add("</tbody></table></div>\n</section>\n")
}

func (p *page) cell(c cellView, below string) {
	class := ""
	if c.Best {
		class = ` class="best"`
	}
	p.add("<td", class, "><span>", esc(c.Text), "</span>", below, "</td>")
}

// words writes the explanations of the measures.
func (p *page) words(measures []Measure) {
	p.add("\n<section class=\"card\">\n<h2>What the words mean</h2>\n<dl>")
	for _, m := range measures {
		p.add("<dt>", esc(m.Name), "</dt><dd>", esc(m.About), "</dd>")
	}
	p.add("</dl>\n",
		`<p class="soft small" style="margin-top:12px">Bars are medians. Their whiskers reach from the lowest `,
		"round to the highest. Below each figure of a table is how far the rounds lay from it. A figure is marked "+
			"as the best if ",
		"its worst round is better than any other store's best.</p>\n</section>\n")
}
