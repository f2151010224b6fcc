// Package calls counts the calls in progress of a store's client, so that its Close can wait for them.
package calls

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Calls counts calls and what they do in the background. The zero Calls is ready; it may be used by many goroutines at
// once.
type Calls struct {
	mu      sync.Mutex
	n       int
	closing bool
	sealed  bool
	idle    chan struct{} // not nil while Drain waits; closed at n == 0
}

// Begin counts a call in. It is false once the calls are sealed.
func (c *Calls) Begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return false
	}
	c.n++
	return true
}

// Enter is Begin for a call of a Backend, and returns why it must not go on: it is invalid, its context has ended, or
// closing is closed.
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

// Join counts in what a call starts, sealed or not.
func (c *Calls) Join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

// End counts a call out.
func (c *Calls) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Background runs f on a goroutine that counts as a call, and reports whether it does: not once the calls are sealed.
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

// Close closes closing, once, and reports whether it did.
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

// Drain waits until nothing goes on, or for limit.
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

// Idle reports whether nothing goes on.
func (c *Calls) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n == 0
}

// Seal lets no call begin any more.
func (c *Calls) Seal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
}
