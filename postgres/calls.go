package postgres

import (
	"sync"
	"time"
)

// calls counts what goes on in a Backend, so that Close can wait for it.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // not nil while drain waits; closed at n == 0
}

// begin counts a call in. It is false once the Backend is closed.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.n++
	return true
}

// join counts in what a call starts.
func (c *calls) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// background runs f on a goroutine that counts as a call.
func (c *calls) background(f func()) bool {
	if !c.begin() {
		return false
	}
	go func() {
		defer c.end()
		f()
	}()
	return true
}

// seal lets no call begin any more.
func (c *calls) seal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// drain waits until nothing goes on, or for limit.
func (c *calls) drain(limit time.Duration) {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}
