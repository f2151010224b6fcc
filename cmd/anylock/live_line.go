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

// A liveLine is a line on a terminal that is written again and again, to show how far something is. Without a terminal
// there is none.
type liveLine struct {
	out   io.Writer     // nil without a terminal
	width func() int    // of the terminal
	text  func() string // what the line says now

	stop func()

	mu    sync.Mutex
	shown int // runes of the line as it is on the terminal
}

// livePause is how often the line is written.
const livePause = 100 * time.Millisecond

// newLiveLine begins to show text on terminal, if it is one that can show it. kind is the environment's TERM.
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

// live reports whether there is a line.
func (l *liveLine) live() bool { return l.out != nil }

// above writes text to w, which may be the terminal: it then stands above the line.
func (l *liveLine) above(w io.Writer, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.showLocked("")
	io.WriteString(w, text) //nolint:errcheck // what is printed last reports it
}

// end takes the line off the terminal.
func (l *liveLine) end() {
	l.stop()
	l.above(io.Discard, "")
}

// showLocked writes the line anew, over what it was. It uses nothing but carriage returns and blanks, which every
// terminal knows.
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
		io.WriteString(l.out, s) //nolint:errcheck // for people who look
	}
	l.shown = n
}

// shorten cuts s to n runes.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}
