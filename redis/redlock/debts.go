package redlock

import (
	"context"
	"sync"
	"time"
)

// A debt is a key that must be removed from one node on which it may be, or may yet appear, because a request was not
// answered. It is paid when the node has answered a removal, or two if something may still be on its way; it lapses
// when the key would have expired. One goroutine for each node that does not answer sees to all of its debts, however
// many owners they come from.
type debt struct {
	claim  *claim
	number uint64
	until  time.Time
	absent time.Time // when the node first answered
}

const (
	debtFirst  = 20 * time.Millisecond // the first pause between attempts; it doubles
	debtMost   = time.Second           // the longest pause
	debtSettle = 200 * time.Millisecond
	debtBatch  = 256 // so many at most are paid at a time: votes and renewals come between
)

// owe makes sure that node i has nothing of c in the end that requests up to number have written.
func (r *Backend) owe(i int, c *claim, number uint64) {
	c.mu.Lock()
	longest := c.longest
	c.mu.Unlock()
	n := r.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.debts[c]; old != nil {
		number = max(old.number, number)
	}
	// The last request may have been carried out until it was given up.
	n.debts[c] = &debt{claim: c, number: number, until: time.Now().Add(longest + keepPad + n.limit)}
	if !n.paying {
		n.paying = r.leases.Go(func(context.Context) { r.pay(i) })
	}
}

// forgive forgets what is owed for requests of a claim up to number, of which the node has nothing any more.
func (n *node) forgive(c *claim, number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d := n.debts[c]; d != nil && d.number <= number {
		delete(n.debts, c)
	}
}

// pay sees to the debts of node i until there are none, or the Backend is closed.
func (r *Backend) pay(i int) {
	n := r.nodes[i]
	pause := debtFirst
	for last := false; ; {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-r.leases.Closing().Done():
			t.Stop()
			last = true // one more try
		}
		var removals sync.WaitGroup
		for _, d := range n.due(i) {
			removals.Add(1)
			d.claim.turn(i, func() {
				d.claim.clear(n, i, d.number, func(_, sure bool, err error) {
					defer removals.Done()
					if err == nil {
						n.paid(d, sure)
					}
				})
			})
		}
		removals.Wait()
		if n.isDeaf() {
			pause = min(2*pause, debtMost)
		} else {
			pause = max(debtFirst, min(pause, debtSettle/4))
		}
		n.mu.Lock()
		n.paying = len(n.debts) > 0 && !last
		paying := n.paying
		n.mu.Unlock()
		if !paying {
			return
		}
	}
}

// due drops the debts that have lapsed and returns some of those that can be paid now; one, while the node does not
// answer.
func (n *node) due(i int) (list []*debt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for c, d := range n.debts {
		switch {
		case now.After(d.until):
			delete(n.debts, c)
		case c.isBusy(i), !d.absent.IsZero() && now.Sub(d.absent) < debtSettle:
		case len(list) == 0 || len(list) < debtBatch && !n.deaf:
			list = append(list, d)
		}
	}
	return list
}

// paid notes that the node has answered the removal of d.
func (n *node) paid(d *debt, sure bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.debts[d.claim] != d: // it is another one by now
	case !sure && d.absent.IsZero():
		d.absent = time.Now()
	default:
		delete(n.debts, d.claim)
	}
}
