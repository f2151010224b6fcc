package redis

import "sync/atomic"

// A crew runs functions on goroutines of which some are kept for the next: their stacks have grown to what the client library
// needs, which costs a new goroutine a fifth of a request's time.
type crew struct {
	tasks chan func()
	idle  atomic.Int32
	end   <-chan struct{} // closed when none is needed any more
}

// crewIdle is how many goroutines are kept.
const crewIdle = 8

func newCrew(end <-chan struct{}) *crew { return &crew{tasks: make(chan func()), end: end} }

// run runs f, at once.
func (c *crew) run(f func()) {
	select {
	case c.tasks <- f:
	default:
		go c.work(f)
	}
}

func (c *crew) work(f func()) {
	for {
		f()
		if c.idle.Add(1) > crewIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case f = <-c.tasks:
			c.idle.Add(-1)
		case <-c.end:
			return
		}
	}
}
