package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// places limits how many waiters of a Backend queue at the server at a time. The others poll, and stand in line for a
// place. Without the line, a writer that polls would never find its key free while readers succeed each other.
type places struct {
	mu   sync.Mutex
	free int
	line []*place // nobody in it while a place is free
}

// A place belongs to one waiter, from enter to leave.
type place struct {
	of     *places
	inLine bool
	ready  chan struct{} // closed once the waiter may queue at the server
}

// enter returns a place, which is ready if one is free. Otherwise the waiter may find its key free and need none, so it
// stands in line only after its first refusal (see wait).
func (p *places) enter() *place {
	w := &place{of: p, ready: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 {
		p.free--
		close(w.ready)
	}
	return w
}

func (w *place) isReady() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// wait stands in line until the place is ready or it is time to poll again, after pause.
func (w *place) wait(ctx context.Context, pause time.Duration) error {
	w.standInLine()
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-w.ready:
	case <-t.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return kit.ContextError(ctx, nil)
	}
	return nil
}

func (w *place) standInLine() {
	p := w.of
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case w.inLine || w.isReady():
	case p.free > 0:
		p.free--
		close(w.ready)
	default:
		w.inLine = true
		p.line = append(p.line, w)
	}
}

// leave hands the place to the first in line.
func (w *place) leave() {
	p := w.of
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !w.isReady():
		p.line = slices.DeleteFunc(p.line, func(other *place) bool { return other == w })
	case len(p.line) > 0:
		first := p.line[0]
		p.line = slices.Delete(p.line, 0, 1)
		close(first.ready)
	default:
		p.free++
	}
}
