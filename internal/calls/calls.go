// Package calls counts the calls in progress of a store's client, so that the client's Close can wait for them.
package calls

import (
	"sync"
	"time"
)

// Calls counts calls and their background work. The zero Calls is ready to use. Its methods are safe for concurrent
// use.
type Calls struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // nil before Close; closed when n reaches 0 after it
}

// Begin counts a new call. After Close it returns false, and counts nothing.
func (c *Calls) Begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return false
	}
	c.n++
	return true
}

// End ends one call.
func (c *Calls) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.ended != nil {
		close(c.ended)
	}
}

// Background runs f on a new goroutine that counts as a call. After Close it does not run f.
func (c *Calls) Background(f func()) {
	if c.Begin() {
		go func() {
			defer c.End()
			f()
		}()
	}
}

// Close prevents new calls, and waits until none is in progress, limit at most. It may be called only once.
func (c *Calls) Close(limit time.Duration) {
	ended := make(chan struct{})
	c.mu.Lock()
	c.ended = ended
	if c.n == 0 {
		close(ended)
	}
	c.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}

// Idle reports whether no call is in progress.
func (c *Calls) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n == 0
}
