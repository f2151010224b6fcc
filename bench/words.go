package bench

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// spreadAbout explains the column "spread" of a text report, which is not a measure.
const spreadAbout = "how far the lowest and the highest round were from the median in the column before it"

// usualWidth is the width of the explanations if the report has no width of its own.
const usualWidth = 80

// writeWords explains the columns that occur in the report's tables.
func (b *Report) writeWords(t *strings.Builder, width int) {
	var words [][2]string
	for _, m := range Measures {
		if b.shows(m) {
			words = append(words, [2]string{m.Name, m.About})
		}
	}
	if len(words) == 0 {
		return
	}
	words = append(words, [2]string{"spread", spreadAbout})
	longest := 0
	for _, w := range words {
		longest = max(longest, len(w[0]))
	}
	if width == 0 {
		width = usualWidth
	}
	t.WriteString("\nWhat the columns mean:\n")
	indent := 2 + longest + 2
	for _, w := range words {
		text := strings.Join(wrap(w[1], width-indent), "\n"+strings.Repeat(" ", indent))
		fmt.Fprintf(t, "  %-*s%s\n", longest+2, w[0], text)
	}
}

// shows reports whether the table of any scenario has a column for m.
func (b *Report) shows(m Measure) bool {
	for _, sc := range b.Scenarios {
		for _, of := range b.measuresOf(sc.Name) {
			if of == m {
				return true
			}
		}
	}
	return false
}

// wrap breaks text into lines of at most width characters. A longer word has its own line.
func wrap(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last]+" "+word) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}
