package specimens

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Calls are the requests of a client that are under way, which its Close waits for.
type Calls struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// Go runs f on a goroutine of its own. It reports false, and does not, after Close.
func (c *Calls) Go(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.group.Go(f)
	return true
}

// Ask makes a request of calls that ctx does not call off: nobody would know then whether it is done, nor when it is
// certain not to be done any more. It returns when ctx ends, and late is called when the request has ended after that,
// which timeout and base bound.
func Ask[T any](ctx, base context.Context, calls *Calls, timeout time.Duration,
	request func(ctx context.Context) (T, error), late func()) (T, error) {
	type result struct {
		value T
		err   error
	}
	answered := make(chan result)
	begun := calls.Go(func() {
		own, cancel := context.WithTimeout(base, timeout)
		defer cancel()
		value, err := request(own)
		select {
		case answered <- result{value, err}:
		case <-ctx.Done():
			late()
		}
	})
	var none T
	if !begun {
		return none, backend.ErrClosed
	}
	select {
	case r := <-answered:
		return r.value, r.err
	case <-ctx.Done():
		return none, kit.ContextError(ctx, nil)
	}
}

// Close lets no more calls begin.
func (c *Calls) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// Wait returns, after Close, when all have ended.
func (c *Calls) Wait() { c.group.Wait() }
