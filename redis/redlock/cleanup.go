package redlock

import (
	"context"
	"sync"
	"time"
)

// A cleanup is a key that must be removed from one node. The node may have the key, or may still get it, because a
// request was not answered. The cleanup ends when the node has answered a removal, or two if a request may still be on
// its way, or when the key would have expired. One goroutine for each node makes all of its cleanups.
type cleanup struct {
	claim  *claim
	number uint64
	until  time.Time
	absent time.Time // when the node first answered
}

const (
	cleanupFirst = 20 * time.Millisecond // the first pause between attempts; it doubles
	cleanupMost  = time.Second           // the longest pause
	cleanupGap   = 200 * time.Millisecond
	cleanupBatch = 256 // at most so many at a time: votes and renewals come between
)

// cleanUpLater has the key of c removed from node i in the background, if a request up to number has written it.
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
	// The last request may have been carried out until it was given up.
	n.cleanups[c] = &cleanup{claim: c, number: number, until: time.Now().Add(longest + keepPad + n.limit)}
	if !n.cleaning {
		n.cleaning = r.leases.Go(func(context.Context) { r.runCleanups(i) })
	}
}

// cancelCleanup ends the cleanup for requests of a claim up to number: the node has no key of theirs any more.
func (n *node) cancelCleanup(c *claim, number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d := n.cleanups[c]; d != nil && d.number <= number {
		delete(n.cleanups, c)
	}
}

// runCleanups makes the cleanups of node i until there are none, or the Backend is closed.
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
				d.claim.clear(n, i, d.number, func(_, sure bool, err error) {
					defer removals.Done()
					if err == nil {
						n.noteCleanup(d, sure)
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

// dueCleanups drops the cleanups that have lapsed and returns some that can be made now; one, while the node does not
// answer.
func (n *node) dueCleanups(i int) (list []*cleanup) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for c, d := range n.cleanups {
		switch {
		case now.After(d.until):
			delete(n.cleanups, c)
		case c.isBusy(i), !d.absent.IsZero() && now.Sub(d.absent) < cleanupGap:
		case len(list) == 0 || len(list) < cleanupBatch && !n.unresponsive:
			list = append(list, d)
		}
	}
	return list
}

// noteCleanup notes that the node has answered the removal of d.
func (n *node) noteCleanup(d *cleanup, sure bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.cleanups[d.claim] != d: // it is another one by now
	case !sure && d.absent.IsZero():
		d.absent = time.Now()
	default:
		delete(n.cleanups, d.claim)
	}
}
