package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

// A claim is what one attempt of an owner has at the nodes, or may have: from its first request on, and through the life of its lease.
//
// Requests of one claim to one node that write or remove its key are sent one after the other, in turns: connections of a
// pool do not keep order. What was given up is not sent any more.
type claim struct {
	keys []string // at a node: the lock, its fence, and the node's birth
	// id is what nodes call the owner: with a random part, so that two that are given one name exclude each other, and what an earlier
	// attempt has left is told from this one.
	id     string
	ttl    time.Duration // as granted
	token  uint64        // set at the grant
	number atomic.Uint64 // of the last request; a node that has the key by a later one ignores others

	mu   sync.Mutex
	over bool    // nothing is to be written any more
	at   []place // by node
}

// A place is a claim at one node.
//
// there is false only if the node does not have the key and nothing is on its way that may write it. So whoever gives up
// a claim, and removes the key from the nodes where it may be afterwards, leaves nothing.
type place struct {
	busy  bool     // a request is under way
	queue []func() // that wait for their turn
	there bool     // the node may have the key
	doubt bool     // a request went unanswered that may yet write the key
}

func (r *Redlock) newClaim(q backend.Request, ttl time.Duration) *claim {
	return &claim{
		keys: []string{r.naming.lock(q.Key), r.naming.fence(q.Key), r.naming.birth()}, id: newID() + q.Owner, ttl: ttl,
		at: make([]place, len(r.nodes)),
	}
}

// place is what is known of the claim at node i.
func (c *claim) place(i int) place {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[i]
}

// finish lets nothing be written any more. What may be at a node already is known to place from now on.
func (c *claim) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// turn runs f when the requests to node i before it have ended, which may be at once. f makes a request, or none, and calls next when that
// has ended.
func (c *claim) turn(i int, f func()) {
	c.mu.Lock()
	p := &c.at[i]
	if p.busy {
		p.queue = append(p.queue, f)
		c.mu.Unlock()
		return
	}
	p.busy = true
	c.mu.Unlock()
	f()
}

func (c *claim) next(i int) {
	c.mu.Lock()
	p := &c.at[i]
	if len(p.queue) == 0 {
		p.busy = false
		c.mu.Unlock()
		return
	}
	f := p.queue[0]
	p.queue = p.queue[1:]
	c.mu.Unlock()
	f()
}

// A trace is what the answer to a request tells of the owner's key at the node.
type trace int

const (
	untold  trace = iota // nothing: it is as it was
	present              // it is there, by this request or a later one
	missing              // it is not
)

// write has send make a request that may write the key at node i, in its turn, unless the claim is over by then: that is
// ErrLost. send tells what came of it, and then done is told.
func (c *claim) write(n *node, i int, send func(ended func(trace, error)), done func(error)) {
	c.turn(i, func() {
		c.mu.Lock()
		p := &c.at[i]
		had, over := p.there, c.over
		p.there = had || !over // whoever ends the claim meanwhile must know
		c.mu.Unlock()
		if over {
			c.next(i)
			done(backend.ErrLost)
			return
		}
		send(func(found trace, err error) {
			c.mu.Lock()
			switch {
			case err == nil && found == untold, err != nil && n.harmless(err):
				p.there = had
			case err == nil:
				p.there = found == present || p.doubt
			default:
				p.doubt = true
			}
			c.mu.Unlock()
			c.next(i)
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

// A removal is what a node says of one.
type removal int

const (
	removed removal = iota
	absent          // it was there once
	never           // it has never been there
	unknown
)

// remove removes the key of a claim that is over from node i, in its turn, and tells done. What cannot be removed
// now, or may come back, is left to the node's debts; and what a node has that does not answer is only tried if it is urgent.
func (c *claim) remove(r *Redlock, i int, urgent bool, done func(removal, error)) {
	if !c.place(i).there {
		done(never, nil)
		return
	}
	c.turn(i, func() {
		n := r.nodes[i]
		if !c.place(i).there { // what was under way has been refused
			c.next(i)
			done(never, nil)
			return
		}
		if !urgent && n.isDeaf() {
			c.next(i)
			r.owe(i, c)
			done(unknown, errStuck)
			return
		}
		n.post(c.removal(), func(v any, err error) {
			gone, ok := v.(int64)
			if err == nil && !ok {
				err = errReply(v)
			}
			c.mu.Lock()
			p := &c.at[i]
			sure := err == nil && !p.doubt
			p.there = !sure
			c.mu.Unlock()
			c.next(i)
			if sure {
				n.forgive(c)
			} else {
				r.owe(i, c)
			}
			switch {
			case err != nil:
				done(unknown, err)
			case gone > 0:
				done(removed, nil)
			default:
				done(absent, nil)
			}
		})
	})
}

// removal is the request that removes the key from a node.
func (c *claim) removal() request {
	return request{script: redlockRelease, keys: c.keys[:1], args: []any{c.id}}
}

// keep is until when a node may have a key that was asked for by now, in a request that lasts no longer than limit.
func (c *claim) keep(limit time.Duration) time.Time {
	return time.Now().Add(c.ttl + keepPad + limit)
}
