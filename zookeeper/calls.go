package zookeeper

import (
	"sync"
	"time"
)

// calls counts what goes on in a Backend, so that Close can wait for it.
type calls struct {
	mu      sync.Mutex
	n       int
	closing bool
	sealed  bool
	idle    chan struct{} // not nil while drain waits; closed at n == 0
}

// begin counts a call in. It is false once the calls are sealed.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return false
	}
	c.n++
	return true
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

// background runs f on a goroutine that counts as a call. The caller must be in a call itself.
func (c *calls) background(f func()) {
	if !c.begin() {
		return
	}
	go func() {
		defer c.end()
		f()
	}()
}

// close closes closing, once, and reports whether it did.
func (c *calls) close(closing chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.closing = true
	close(closing)
	return true
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

// seal lets no call begin any more.
func (c *calls) seal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
}
