package main

import "time"

// A notices prints lines in the background. A terminal that is held with Ctrl-S, or a pipe that nobody reads, must not
// keep a command from being stopped in time, nor a lease from being renewed.
type notices struct {
	lines chan string
	last  chan struct{} // closed with close: no more will come
	done  chan struct{}
}

const (
	noticesKept     = 64          // lines that wait to be printed; more are dropped
	noticesPatience = time.Second // how long close waits for the reader
)

func newNotices(print func(line string)) *notices {
	n := &notices{lines: make(chan string, noticesKept), last: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for {
			select {
			case line := <-n.lines:
				print(line)
			case <-n.last:
				for len(n.lines) > 0 {
					print(<-n.lines)
				}
				return
			}
		}
	}()
	return n
}

func (n *notices) add(line string) {
	select {
	case n.lines <- line:
	default:
	}
}

// close waits until everything is printed, unless that is blocked. What is added later is not printed.
func (n *notices) close() {
	close(n.last)
	select {
	case <-n.done:
	case <-time.After(noticesPatience):
	}
}
