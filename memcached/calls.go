package memcached

import (
	"sync"
	"time"
)

// calls counts what goes on, so that Close can wait for it.
type calls struct {
	mu     sync.Mutex
	n      int
	sealed bool
	idle   chan struct{} // not nil while drain waits; closed at n == 0
}

// begin counts a call in. It is false, and counts nothing, once the calls are sealed.
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

// seal lets no call begin any more, and reports whether that is new.
func (c *calls) seal() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.sealed
	c.sealed = true
	return first
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
