package redlock

import (
	"context"
	"sync"
	"time"
)

// A cleanup is a key that must be removed from one node. The node may have the key, or may still get it from a request
// without a reply. The cleanup ends when the node has replied to a removal, or to two if a request may still be in
// flight, or when the key must have expired. Each node has one goroutine for all of its cleanups.
type cleanup struct {
	claim  *claim
	number uint64
	until  time.Time
}

const (
	cleanupFirst = 20 * time.Millisecond  // the first pause between attempts; it doubles
	cleanupMost  = time.Second            // the longest pause
	cleanupGap   = 200 * time.Millisecond // the least time between the two removals of a key
	cleanupBatch = 256                    // the most at a time, so that votes and renewals can run in between
)

// cleanUpLater schedules the removal of the key of c from node i, if a request up to number has written it.
func (r *Backend) cleanUpLater(i int, c *claim, number uint64) {
	c.mu.Lock()
	longest := c.longest
	c.mu.Unlock()
	n := r.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.cleanups[c]; old != nil {
		number = max(old.number, number)
	}
	// The last request may run as late as its limit, and the node then keeps the key for longest + keepPad.
	n.cleanups[c] = &cleanup{claim: c, number: number, until: time.Now().Add(longest + keepPad + n.limit)}
	if !n.cleaning {
		n.cleaning = r.leases.Go(func(context.Context) { r.runCleanups(i) })
	}
}

// cancelCleanup cancels the cleanup for requests of a claim up to number, because the node has no key of theirs any
// more.
func (n *node) cancelCleanup(c *claim, number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d := n.cleanups[c]; d != nil && d.number <= number {
		delete(n.cleanups, c)
	}
}

// runCleanups runs the cleanups of node i until there are none, or the Backend is closed.
func (r *Backend) runCleanups(i int) {
	n := r.nodes[i]
	pause := cleanupFirst
	for last := false; ; {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-r.leases.Closing().Done():
			t.Stop()
			last = true // one more try
		}
		var removals sync.WaitGroup
		for _, d := range n.dueCleanups(i) {
			removals.Add(1)
			d.claim.inOrder(i, func() {
				d.claim.sendRemoval(n, i, d.number, func(_, sure bool, _ error) {
					defer removals.Done()
					if sure {
						n.cancelCleanup(d.claim, d.number)
					}
				})
			})
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
func (n *node) dueCleanups(i int) (list []*cleanup) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for c, d := range n.cleanups {
		p := c.part(i)
		switch {
		case now.After(d.until):
			delete(n.cleanups, c)
		case len(p.requests) > 0, now.Sub(p.answered) < cleanupGap:
		case len(list) == 0 || len(list) < cleanupBatch && !n.unresponsive:
			list = append(list, d)
		}
	}
	return list
}
