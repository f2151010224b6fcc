package main

import (
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
