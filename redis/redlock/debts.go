package redlock

import (
	"time"

	"github.com/anylock/lock/redis/internal/exchange"
)

// A debt is a key that must be removed from one node on which it may be, or may yet appear, because a request was not
// answered. It is paid when the node has answered a removal, or two if something may still be on its way; it lapses when
// the key would have expired. One goroutine for each node that does not answer sees to all of its debts, however many
// owners they come from.
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
	debtBatch  = 256
	debtsMost  = 1 << 16 // of one node; what is more is left to its TTL
)

// owe makes sure that node i has nothing of c in the end that requests up to number have written.
func (r *Backend) owe(i int, c *claim, number uint64) {
	n := r.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.debts[c.id]; old != nil {
		number = max(old.number, number)
	} else if len(n.debts) >= debtsMost {
		return
	}
	n.debts[c.id] = &debt{claim: c, number: number, until: c.keep(n.limit)}
	if !n.paying {
		n.paying = r.usage.Calls.Background(func() { r.pay(n, i) })
	}
}

// forgive forgets what is owed for requests of a claim up to number, of which the node has nothing any more.
func (n *node) forgive(c *claim, number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d := n.debts[c.id]; d != nil && d.number <= number {
		delete(n.debts, c.id)
	}
}

// pay sees to the debts of one node until there are none, or the Redlock is closed.
func (r *Backend) pay(n *node, i int) {
	pause := debtFirst
	for last := false; ; {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-r.usage.Closing:
			t.Stop()
			last = true // one more try
		}
		if n.settle(i, n.due(i)) {
			pause = max(debtFirst, min(pause, debtSettle/4))
		} else {
			pause = min(2*pause, debtMost)
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

// due drops the debts that have lapsed and returns some of those that can be paid now.
func (n *node) due(i int) []*debt {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	var list []*debt
	for id, d := range n.debts {
		switch {
		case now.After(d.until):
			delete(n.debts, id)
		case d.claim.part(i).busy, !d.absent.IsZero() && now.Sub(d.absent) < debtSettle:
		case len(list) < debtBatch:
			list = append(list, d)
		}
	}
	return list
}

// settle asks the node to remove what is due, and reports whether it has answered.
func (n *node) settle(i int, due []*debt) bool {
	if len(due) == 0 {
		return true
	}
	list := make([]exchange.Request, len(due))
	for k, d := range due {
		list[k] = d.claim.removal(d.number)
	}
	ended := make(chan error, 1)
	var replies []exchange.Result
	n.postAll(list, func(results []exchange.Result, err error) {
		replies = results
		ended <- err
	})
	if err := <-ended; err != nil && !exchange.IsReply(err) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for k, d := range due {
		switch {
		case replies[k].Err != nil, n.debts[d.claim.id] != d: // in the second case it is another one by now
		case d.absent.IsZero() && d.claim.part(i).doubt:
			d.absent = now
		default:
			delete(n.debts, d.claim.id)
		}
	}
	return true
}
