// Package calls counts the calls in progress of a store's client, so that the client's Close can wait for them.
package calls

import (
	"sync"
	"time"
)

// Calls counts calls and their background work. The zero Calls is ready to use. Its methods are safe for concurrent
// use.
type Calls struct {
	mu     sync.Mutex
	n      int
	sealed bool
	idle   chan struct{} // not nil while Drain waits; closed when n reaches 0
}

// Begin counts a new call. It returns false, and counts nothing, once the calls are sealed.
func (c *Calls) Begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return false
	}
	c.n++
	return true
}

// End ends one call.
func (c *Calls) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Background runs f on a new goroutine that counts as a call. Once the calls are sealed, it returns false and does not
// run f.
func (c *Calls) Background(f func()) bool {
	if !c.Begin() {
		return false
	}
	go func() {
		defer c.End()
		f()
	}()
	return true
}

// Drain waits until no call is in progress, limit at most.
func (c *Calls) Drain(limit time.Duration) {
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

// Idle reports whether no call is in progress.
func (c *Calls) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n == 0
}

// Seal prevents new calls.
func (c *Calls) Seal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
}
