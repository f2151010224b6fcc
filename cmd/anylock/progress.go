package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/anylock/lock/conformance"
)

// A progress shows on a terminal, in one line that it writes again and again, how far the suite is. Results are printed
// through it, so that they stand above that line. Without a terminal there is no line.
type progress struct {
	results io.Writer
	line    io.Writer  // nil without a terminal
	width   func() int // of the terminal
	total   int
	begun   time.Time

	mu      sync.Mutex
	done    int
	failed  int
	running []string // in the order in which they began
	shown   int      // runes of the line as it is on the terminal
	stop    chan struct{}
	stopped sync.WaitGroup
}

// progressPause is how often the line is written.
const progressPause = 100 * time.Millisecond

// newProgress begins to show the progress of total checks on terminal, if it is one that can show it.
func newProgress(results io.Writer, terminal *os.File, kind string, total int) *progress {
	p := &progress{results: results, total: total, begun: time.Now(), stop: make(chan struct{})}
	p.width = func() int { return widthOf(terminal) }
	if kind != "dumb" && p.width() > 0 {
		p.line = terminal
		p.stopped.Go(p.repeat)
	}
	return p
}

func (p *progress) repeat() {
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.mu.Lock()
			p.show(p.text(time.Since(p.begun)))
			p.mu.Unlock()
		}
	}
}

// live reports whether there is a line.
func (p *progress) live() bool { return p.line != nil }

func (p *progress) began(c conformance.Check) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, c.Name)
}

// ended counts r and prints it by print.
func (p *progress) ended(r conformance.Result, print func(w io.Writer, r conformance.Result)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if r.Status == conformance.Fail {
		p.failed++
	}
	if i := slices.Index(p.running, r.Name); i >= 0 {
		p.running = slices.Delete(p.running, i, i+1)
	}
	var b strings.Builder
	print(&b, r)
	if b.Len() == 0 {
		return
	}
	p.show("")
	io.WriteString(p.results, b.String()) //nolint:errcheck // the summary reports it
}

// end takes the line off the terminal.
func (p *progress) end() {
	close(p.stop)
	p.stopped.Wait()
	p.show("")
}

func (p *progress) text(since time.Duration) string {
	s := fmt.Sprintf("%d of %d checks", p.done, p.total)
	if p.failed > 0 {
		s += fmt.Sprintf(", %d failed", p.failed)
	}
	s += fmt.Sprintf(", %d s", int(since.Seconds()))
	if len(p.running) > 0 {
		s += ": " + strings.Join(p.running, ", ")
	}
	return s
}

// show writes the line anew, over what it was. It uses nothing but carriage returns and blanks, which every terminal knows.
func (p *progress) show(text string) {
	if p.line == nil {
		return
	}
	text = shorten(text, p.width()-1)
	n := utf8.RuneCountInString(text)
	blank := max(0, p.shown-n)
	s := "\r" + text + strings.Repeat(" ", blank) + strings.Repeat("\b", blank)
	if n == 0 {
		s += "\r"
	}
	if n > 0 || p.shown > 0 {
		io.WriteString(p.line, s) //nolint:errcheck // for people who look
	}
	p.shown = n
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
