package specimens

import "sync"

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

// Close lets no more calls begin.
func (c *Calls) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// Wait returns, after Close, when all have ended.
func (c *Calls) Wait() { c.group.Wait() }
