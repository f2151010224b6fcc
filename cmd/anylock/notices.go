package main

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A notices prints lines in the background. A terminal that is held with Ctrl-S, or a pipe that nobody reads, must not
// keep a command from being stopped in time, nor a lease from being renewed.
type notices struct {
	lines chan string
	done  chan struct{}

	mu     sync.Mutex
	closed bool
}

const (
	noticesKept     = 64          // lines that wait to be printed; more are dropped
	noticesPatience = time.Second // how long close waits for the reader
)

func newNotices(print func(line string)) *notices {
	n := &notices{lines: make(chan string, noticesKept), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for line := range n.lines {
			print(line)
		}
	}()
	return n
}

func (n *notices) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	select {
	case n.lines <- line:
	default:
	}
}

// close waits until everything is printed, unless that is blocked.
func (n *notices) close() {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.lines)
	}
	n.mu.Unlock()
	patience := time.NewTimer(noticesPatience)
	defer patience.Stop()
	select {
	case <-n.done:
	case <-patience.C:
	}
}

// logger is for package lock. Only --verbose shows what it says: what matters to a user, run says itself.
func (n *notices) logger(verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(lineWriter{n}, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	}))
}

type lineWriter struct{ n *notices }

func (w lineWriter) Write(p []byte) (int, error) {
	w.n.add(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
