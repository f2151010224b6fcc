package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// A cleanup is a key that must be removed from one node, if a request up to a number has written it. The node may have
// the key, or may still get it from a request without a reply. The cleanup ends when the node has replied to a removal
// or, if a request may still be in flight, when the node has had no key for lateArrival; or when the key must have
// expired. Each node has one goroutine for all of its cleanups.

const (
	cleanupFirst = 20 * time.Millisecond  // the first pause between attempts; it doubles
	cleanupMost  = time.Second            // the longest pause
	cleanupGap   = 200 * time.Millisecond // the least time between two removals of a key
	cleanupBatch = 256                    // the most at a time, so that votes and renewals can run in between
	// lateArrival is how long a request without a reply may still take to reach a node, whose thread or whose virtual
	// machine can stall for hundreds of milliseconds. Package kit allows as much.
	lateArrival = time.Second
)

// cleanUpLater schedules the removal of the key of c from node i, if a request up to number has written it.
func (r *Backend) cleanUpLater(i int, c *claim, number uint64) {
	n := r.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cleanups[c] = max(n.cleanups[c], number)
	if !n.cleaning {
		n.cleaning = r.leases.Go(func(context.Context) { r.runCleanups(i) })
	}
}

// cancelCleanup cancels the cleanup for requests of a claim up to number, because the node has no key of theirs any
// more.
func (n *node) cancelCleanup(c *claim, number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cleanups[c] <= number {
		delete(n.cleanups, c)
	}
}

// runCleanups runs the cleanups of node i until there are none, or the Backend is closed.
func (r *Backend) runCleanups(i int) {
	n := r.nodes[i]
	pause := cleanupFirst
	for last := false; ; {
		last = kit.Sleep(r.leases.Closing(), pause) != nil // then one more try
		var removals sync.WaitGroup
		for c, number := range n.dueCleanups(i) {
			removals.Add(1)
			c.remove(r, i, number, true, func(bool, error) { removals.Done() })
		}
		removals.Wait()
		if n.isUnresponsive() {
			pause = min(2*pause, cleanupMost)
		} else {
			pause = max(cleanupFirst, min(pause, cleanupGap/4))
		}
		n.mu.Lock()
		n.cleaning = len(n.cleanups) > 0 && !last
		cleaning := n.cleaning
		n.mu.Unlock()
		if !cleaning {
			return
		}
	}
}

// dueCleanups drops expired cleanups, and returns some that can run now. It returns only one while the node is
// unresponsive.
func (n *node) dueCleanups(i int) map[*claim]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := make(map[*claim]uint64)
	now := time.Now()
	for c, number := range n.cleanups {
		c.mu.Lock()
		p, until := c.at[i], c.until
		c.mu.Unlock()
		switch {
		case len(p.requests) > 0, now.Sub(p.removed) < cleanupGap:
		case now.After(until):
			delete(n.cleanups, c)
		case len(due) == 0 || len(due) < cleanupBatch && !n.unresponsive:
			due[c] = number
		}
	}
	return due
}
