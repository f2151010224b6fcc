package main

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// A liveLine is a line on a terminal that is rewritten again and again to show progress. Without a terminal it shows
// nothing.
type liveLine struct {
	out   io.Writer     // nil without a terminal
	width func() int    // of the terminal
	text  func() string // returns the current text of the line

	stop func()

	mu    sync.Mutex
	shown int // length of the line on the terminal, in runes
}

// livePause is the time between two updates of the line.
const livePause = 100 * time.Millisecond

// newLiveLine starts to show text on terminal, unless terminal is no terminal or a dumb one. kind is the value of
// $TERM.
func newLiveLine(terminal *os.File, kind string, text func() string) *liveLine {
	l := &liveLine{text: text, stop: func() {}}
	l.width = func() int { return widthOf(terminal) }
	if kind != "dumb" && l.width() > 0 {
		l.out = terminal
		l.stop = repeat(livePause, l.rewrite)
	}
	return l
}

func (l *liveLine) rewrite(context.Context) {
	text := l.text()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.showLocked(text)
}

// live reports whether the line is shown.
func (l *liveLine) live() bool { return l.out != nil }

// above writes text to w. If w is the terminal, the text appears above the line.
func (l *liveLine) above(w io.Writer, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.showLocked("")
	io.WriteString(w, text) //nolint:errcheck // the write of the summary will fail too
}

// end stops the updates and removes the line from the terminal.
func (l *liveLine) end() {
	l.stop()
	l.above(io.Discard, "")
}

// showLocked replaces the line. It uses only carriage returns, blanks and backspaces, which every terminal supports.
func (l *liveLine) showLocked(text string) {
	if l.out == nil {
		return
	}
	text = shorten(text, l.width()-1)
	n := utf8.RuneCountInString(text)
	blank := max(0, l.shown-n)
	s := "\r" + text + strings.Repeat(" ", blank) + strings.Repeat("\b", blank)
	if n == 0 {
		s += "\r"
	}
	if n > 0 || l.shown > 0 {
		io.WriteString(l.out, s) //nolint:errcheck // only a display
	}
	l.shown = n
}

// shorten cuts s to at most n runes.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}
