package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anylock/lock/conformance"
)

// A progress shows the progress of the suite in a live line. It prints results above that line.
type progress struct {
	*liveLine
	results io.Writer
	total   int
	begun   time.Time

	mu      sync.Mutex
	done    int
	failed  int
	running []string // in the order of their start
}

// newProgress starts to show the progress of total checks on terminal, if a live line can be shown there.
func newProgress(results io.Writer, terminal *os.File, kind string, total int) *progress {
	p := &progress{results: results, total: total, begun: time.Now()}
	p.liveLine = newLiveLine(terminal, kind, func() string { return p.text(time.Since(p.begun)) })
	return p
}

func (p *progress) began(c conformance.Check) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, c.Name)
}

// ended counts r and prints text, unless text is empty.
func (p *progress) ended(r conformance.Result, text string) {
	p.mu.Lock()
	p.done++
	if r.Status == conformance.Fail {
		p.failed++
	}
	p.running = slices.DeleteFunc(p.running, func(name string) bool { return name == r.Name })
	p.mu.Unlock()
	if text != "" {
		p.above(p.results, text)
	}
}

func (p *progress) text(since time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
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
