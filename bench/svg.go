package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// A bar is one bar of a chart.
type bar struct {
	name  string
	color int
	Figure
}

// Sizes are in units of the drawing, which scales with the page.
const (
	chartWidth  = 460.0
	labelWidth  = 128.0
	valueWidth  = 84.0
	barHeight   = 18.0
	barGap      = 12.0
	chartTop    = 26.0
	chartBottom = 8.0
	logFrom     = 20.0 // the ratio of the largest to the smallest value from which the scale is logarithmic
)

// chart draws bars with their medians, and whiskers from the lowest to the highest round. If the values are far apart,
// the scale is logarithmic, and the chart shows this.
func chart(m Measure, bars []bar) string {
	scale, kind := scaleOf(bars)
	height := chartTop + float64(len(bars))*(barHeight+barGap) + chartBottom
	better := "less is better"
	if m.More {
		better = "more is better"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, height,
		esc(m.Name+": "+m.About))
	fmt.Fprintf(&b, `<text class="head" x="0" y="14">%s</text><text class="sub" x="%g" y="14" text-anchor="end">%s%s</text>`,
		esc(m.Name), chartWidth, better, kind)
	for i, x := range bars {
		y := chartTop + float64(i)*(barHeight+barGap)
		mid := y + barHeight/2
		fmt.Fprintf(&b, `<text class="name" x="%g" y="%g" text-anchor="end">%s</text>`, labelWidth-8, mid+4,
			esc(shorten(x.name)))
		fmt.Fprintf(&b, `<rect class="c%d" x="%g" y="%g" width="%.1f" height="%g" rx="3"><title>%s</title></rect>`,
			x.color, labelWidth, y, max(scale(x.Median), 2), barHeight, esc(tip(m, x)))
		low, high := labelWidth+scale(x.Low), labelWidth+scale(x.High)
		if high-low > 1 {
			fmt.Fprintf(&b, `<path class="whisker" d="M%.1f %gH%.1fM%.1f %gv8M%.1f %gv8"/>`, low, mid, high, low, mid-4, high,
				mid-4)
		}
		fmt.Fprintf(&b, `<text class="value" x="%.1f" y="%g">%s</text>`, max(high, labelWidth+scale(x.Median))+8, mid+4,
			esc(m.Show(x.Median, true)))
	}
	b.WriteString("</svg>")
	return b.String()
}

// scaleOf returns a function from values to lengths of bars. The highest value has the full width.
func scaleOf(bars []bar) (scale func(v float64) float64, kind string) {
	const width = chartWidth - labelWidth - valueWidth
	high, low := 0.0, math.Inf(1)
	for _, x := range bars {
		high = max(high, x.High)
		if x.Low > 0 {
			low = min(low, x.Low)
		}
	}
	switch {
	case high == 0:
		return func(float64) float64 { return 0 }, ""
	case high/low < logFrom:
		return func(v float64) float64 { return width * v / high }, ""
	}
	from := math.Floor(math.Log10(low)) - 0.3 // the smallest value still has a bar
	whole := math.Log10(high) - from
	return func(v float64) float64 {
		if v <= 0 {
			return 0
		}
		return max(width*(math.Log10(v)-from)/whole, 0)
	}, ", logarithmic"
}

// tip returns the text of a bar's tooltip.
func tip(m Measure, x bar) string {
	return fmt.Sprintf("%s: %s, rounds from %s to %s", x.name, m.Show(x.Median, true), m.Show(x.Low, true),
		m.Show(x.High, true))
}

func shorten(name string) string {
	const most = 17
	if r := []rune(name); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return name
}

func esc(s string) string { return html.EscapeString(s) }
