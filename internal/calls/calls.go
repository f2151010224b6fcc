// Package calls counts the calls in progress of a store's client, so that the client's Close can wait for them.
package calls

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Calls counts calls and their background work. The zero Calls is ready to use. Its methods are safe for concurrent
// use.
type Calls struct {
	mu      sync.Mutex
	n       int
	closing bool
	sealed  bool
	idle    chan struct{} // not nil while Drain waits; closed when n reaches 0
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

// Enter begins a call of a Backend. It returns an error, and counts nothing, if the call is invalid, its context has
// ended, closing is closed, or the calls are sealed.
func (c *Calls) Enter(ctx context.Context, closing <-chan struct{}, invalid error) error {
	if invalid != nil {
		return invalid
	}
	if err := kit.ContextError(ctx, nil); err != nil {
		return err
	}
	if !c.Begin() {
		return backend.ErrClosed
	}
	select {
	case <-closing:
		c.End()
		return backend.ErrClosed
	default:
		return nil
	}
}

// Join counts work that a call starts, even if the calls are sealed.
func (c *Calls) Join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
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

// Close closes closing at its first call, and reports whether this was the first call.
func (c *Calls) Close(closing chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.closing = true
	close(closing)
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
