package main

import "time"

// A notices prints lines in the background. Even if the output blocks (a terminal held with Ctrl-S, a pipe that nobody
// reads), commands must be stopped and leases renewed in time.
type notices struct {
	lines chan string
	last  chan struct{} // closed by close: later lines are not printed
	done  chan struct{}
}

const (
	noticesKept     = 64          // size of the queue, in lines; further lines are dropped
	noticesPatience = time.Second // how long close waits for a blocked output
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

// close waits until all lines are printed, or for noticesPatience if the output blocks. Lines added later are not
// printed.
func (n *notices) close() {
	close(n.last)
	select {
	case <-n.done:
	case <-time.After(noticesPatience):
	}
}
