package redis

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

// lastNumber is higher than that of any request that gives a key to its owner. Lua's numbers are exact up to it.
const lastNumber = 1<<53 - 1

// A claim is what one owner has at the nodes, or may have: from its first request on, and through the life of its lease.
//
// Requests of one owner to one node that write or remove its key are sent one after the other, in lanes: connections of a
// pool do not keep order. What was given up is not sent any more; what was sent already, and arrives late, is told by its
// number: a node that has the key by a later request ignores it, and a removal too.
//
// there[i] is false only if node i does not have the key and nothing is on its way that may write it. So whoever gives up
// requests, and removes the key from the nodes where it may be afterwards, leaves nothing.
type claim struct {
	keys []string // at a node: the lock, its fence, and the node's birth
	// id is what nodes call the owner: with a random part, so that two that are given one name exclude each other.
	id     string
	ttl    time.Duration // as granted
	token  uint64        // set at the grant
	number atomic.Uint64 // of the last request
	lanes  []chan struct{}

	mu    sync.Mutex
	given uint64   // requests up to this number are given up, and not sent any more
	there []bool   // the node may have the key
	wrote []uint64 // number of the last request that may have written it
	doubt []bool   // a request went unanswered that may yet write the key
}

func (r *Redlock) newClaim(q backend.Request, ttl time.Duration) *claim {
	n := len(r.nodes)
	c := &claim{
		keys: []string{r.naming.lock(q.Key), r.naming.fence(q.Key), r.naming.birth()}, id: newID() + q.Owner, ttl: ttl,
		lanes: make([]chan struct{}, n),
		there: make([]bool, n), wrote: make([]uint64, n), doubt: make([]bool, n),
	}
	for i := range c.lanes {
		c.lanes[i] = make(chan struct{}, 1)
	}
	return c
}

var errLane = errors.New("an earlier request of this owner is still under way")

// enter waits for the requests to node i that are under way, and keeps others out until leave.
func (c *claim) enter(i int, limit time.Duration) error {
	select {
	case c.lanes[i] <- struct{}{}:
		return nil
	default:
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case c.lanes[i] <- struct{}{}:
		return nil
	case <-t.C:
		return errLane
	}
}

func (c *claim) leave(i int) { <-c.lanes[i] }

// busy reports whether a request to node i is under way.
func (c *claim) busy(i int) bool { return len(c.lanes[i]) > 0 }

// A trace is what the answer to a request tells of the owner's key at the node.
type trace int

const (
	untold  trace = iota // nothing: it is as it was
	present              // it is there, by this request or a later one
	missing              // it is not
)

// write runs send, a request of this number that may write the key at node i, unless it is given up.
func (c *claim) write(n *node, i int, number uint64, limit time.Duration, send func() (trace, error)) error {
	if err := c.enter(i, limit); err != nil {
		return err
	}
	defer c.leave(i)
	c.mu.Lock()
	if number <= c.given {
		c.mu.Unlock()
		return backend.ErrLost
	}
	had, last := c.there[i], c.wrote[i]
	c.there[i], c.wrote[i] = true, number // whoever ends the claim meanwhile must know
	c.mu.Unlock()
	found, err := send()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && found == untold, err != nil && n.harmless(err):
		c.there[i], c.wrote[i] = had, last
	case err == nil:
		c.there[i] = found == present || c.doubt[i]
	default:
		c.doubt[i] = true
	}
	return err
}

// giveUp lets no request up to number be sent any more. What may be at a node already is known to maybeAt from now on.
func (c *claim) giveUp(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given = max(c.given, number)
}

// finish lets nothing be written any more.
func (c *claim) finish() { c.giveUp(lastNumber) }

func (c *claim) maybeAt(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.there[i]
}

func (c *claim) doubtful(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubt[i]
}

// ownerOf is the owner of a claim's id. What is not an id is somebody else's, and shown as it is.
func ownerOf(id string) string {
	if len(id) <= idLen {
		return id
	}
	return id[idLen:]
}

// A removal is what a node says of one.
type removal int

const (
	removed removal = iota
	absent          // it was there once
	never           // it has never been there
	unknown
)

// remove removes the key from node i as far as requests up to number have written it. What cannot be removed now, or may
// come back, is left to the node's debts.
func (c *claim) remove(r *Redlock, i int, number uint64, limit time.Duration) (removal, error) {
	if !c.maybeAt(i) {
		return never, nil
	}
	n := r.nodes[i]
	if err := c.enter(i, limit); err != nil {
		r.owe(i, c, number)
		return unknown, err
	}
	if !c.maybeAt(i) { // what was under way has been refused
		c.leave(i)
		return never, nil
	}
	v, err := n.eval(redlockRelease, c.keys[:1], c.id, number)
	gone, ok := v.(int64)
	if err == nil && !ok {
		err = errReply(v)
	}
	c.mu.Lock()
	doubt := c.doubt[i]
	if err == nil && !doubt && number >= c.wrote[i] {
		c.there[i] = false
	}
	c.mu.Unlock()
	c.leave(i)
	if err != nil || doubt {
		r.owe(i, c, number)
	}
	switch {
	case err != nil:
		return unknown, err
	case gone > 0:
		return removed, nil
	}
	return absent, nil
}

// keep is until when a node may have a key that was asked for by now, in a request that lasts no longer than limit.
func (c *claim) keep(limit time.Duration) time.Time {
	return time.Now().Add(c.ttl + keepPad + limit)
}
