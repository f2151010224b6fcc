package redlock

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// lastNumber is higher than that of any request that gives a key to its owner. Lua's numbers are exact up to it.
const lastNumber = 1<<53 - 1

// A claim is what one owner has at the nodes, or may have: from its first request on, and through the life of its
// lease.
//
// Requests of one owner to one node that write or remove its key are sent one after the other, because the connections
// of a pool do not keep order. A request that was given up is not sent any more. A request or removal that arrives late
// has a lower number than the request that wrote the key, so that the node ignores it.
type claim struct {
	keys []string // at a node: the lock, its fence, and the node's birth
	// id is what nodes call the owner: with a random part, so that two that are given one name exclude each other.
	id     string
	ttl    time.Duration // as granted
	token  uint64        // set at the grant
	number atomic.Uint64 // of the last request

	mu      sync.Mutex
	longest time.Duration // that a request has had the nodes keep the key
	given   uint64        // requests up to this number are given up, and not sent any more
	renewed *renewal      // the last that a quorum has confirmed; nil before the first
	at      []part        // by node
}

// A part is a claim at one node.
//
// there is false only if the node does not have the key and nothing is on its way that may write it. So whoever gives
// up requests, and removes the key from the nodes where it may be afterwards, leaves nothing.
type part struct {
	requests []func() // the request that is under way, and those that wait for its end
	there    bool     // the node may have the key
	wrote    uint64   // number of the last request that may have written it
	unsure   bool     // a request went unanswered that may yet write the key
	lost     bool     // the node had nothing in the place of the lease when it was last renewed, and has not got it back
}

func (r *Backend) newClaim(q backend.Request, ttl time.Duration) *claim {
	return r.claimOf(q.Key, newID()+q.Owner, ttl)
}

// claimOf is the claim of an owner that nodes call id.
func (r *Backend) claimOf(key, id string, ttl time.Duration) *claim {
	keys := []string{r.naming.lock(key), r.naming.fence(key), r.naming.birth()}
	return &claim{keys: keys, id: id, ttl: ttl, longest: ttl, at: make([]part, len(r.nodes))}
}

// part is what is known of the claim at node i.
func (c *claim) part(i int) part {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[i]
}

// giveUp lets no request up to number be sent any more. What may be at a node already is known to part from now on.
func (c *claim) giveUp(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given = max(c.given, number)
}

// inOrder runs f when the requests to node i before it have ended, which may be at once. f makes at most one request,
// and calls requestEnded at the end.
func (c *claim) inOrder(i int, f func()) {
	c.mu.Lock()
	p := &c.at[i]
	p.requests = append(p.requests, f)
	first := len(p.requests) == 1
	c.mu.Unlock()
	if first {
		f()
	}
}

func (c *claim) requestEnded(i int) {
	c.mu.Lock()
	p := &c.at[i]
	p.requests = slices.Delete(p.requests, 0, 1)
	f := func() {}
	if len(p.requests) > 0 {
		f = p.requests[0]
	}
	c.mu.Unlock()
	f()
}

// isBusy reports whether a request to node i is under way.
func (c *claim) isBusy(i int) bool { return len(c.part(i).requests) > 0 }

// A trace is what the reply to a request says about the owner's key at the node.
type trace int

const (
	traceUnknown trace = iota // nothing: it is as it was
	tracePresent              // it is there, by this request or a later one
	traceMissing              // it is not
)

// write has send make a request of this number that may write the key at node i, in order, unless it is given up by
// then: that is ErrLost. send returns the outcome, and then done is called.
func (c *claim) write(n *node, i int, number uint64, send func(ended func(trace, error)), done func(error)) {
	c.inOrder(i, func() {
		c.mu.Lock()
		p := &c.at[i]
		had, last, given := p.there, p.wrote, number <= c.given
		if !given {
			p.there, p.wrote = true, number // whoever ends the claim meanwhile must know
		}
		c.mu.Unlock()
		if given {
			c.requestEnded(i)
			done(backend.ErrLost)
			return
		}
		send(func(found trace, err error) {
			c.mu.Lock()
			switch {
			case err == nil && found == traceUnknown, err != nil && exchange.Definite(err, true): // it has not been carried out
				p.there, p.wrote = had, last
			case err == nil:
				p.there = found == tracePresent || p.unsure
			default:
				p.unsure = true
			}
			c.mu.Unlock()
			c.requestEnded(i)
			done(err)
		})
	})
}

// ownerOf is the owner of a claim's id. What is not an id is somebody else's, and shown as it is.
func ownerOf(id string) string {
	if len(id) <= idLen {
		return id
	}
	return id[idLen:]
}

// remove removes the key from node i, in order, if a request up to number has written it, and calls done with whether
// the node had the key. A key that cannot be removed now, or may come back, gets a cleanup. If the node does not answer,
// only an urgent removal is tried.
func (c *claim) remove(r *Backend, i int, number uint64, urgent bool, done func(gone bool, err error)) {
	n := r.nodes[i]
	c.inOrder(i, func() {
		switch {
		case !c.part(i).there: // what was under way has been refused, perhaps
			c.requestEnded(i)
			done(false, nil)
			return
		case !urgent && n.isUnresponsive():
			c.requestEnded(i)
			r.cleanUpLater(i, c, number)
			done(false, errStuck)
			return
		}
		c.clear(n, i, number, func(gone, sure bool, err error) {
			if sure {
				n.cancelCleanup(c, number)
			} else {
				r.cleanUpLater(i, c, number)
			}
			done(gone, err)
		})
	})
}

// clear requests a removal, in order. sure means that the key cannot come back.
func (c *claim) clear(n *node, i int, number uint64, done func(gone, sure bool, err error)) {
	n.flag(releaseScript.Request(c.keys[:1], c.id, number),
		func(gone bool, err error) {
			c.mu.Lock()
			p := &c.at[i]
			sure := err == nil && !p.unsure
			p.there = !sure || number < p.wrote
			c.mu.Unlock()
			c.requestEnded(i)
			done(gone, sure, err)
		})
}
