package redlock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// lastNumber is higher than that of any request that gives a key to its owner. Lua's numbers are exact up to it.
const lastNumber = 1<<53 - 1

// A claim is what one owner has at the nodes, or may have: from its first request on, and through the life of its lease.
//
// Requests of one owner to one node that write or remove its key are sent one after the other, in turns: connections of a
// pool do not keep order. What was given up is not sent any more; what was sent already, and arrives late, is told by its
// number: a node that has the key by a later request ignores it, and a removal too.
type claim struct {
	keys []string // at a node: the lock, its fence, and the node's birth
	// id is what nodes call the owner: with a random part, so that two that are given one name exclude each other.
	id     string
	ttl    time.Duration // as granted
	token  uint64        // set at the grant
	number atomic.Uint64 // of the last request

	mu    sync.Mutex
	given uint64 // requests up to this number are given up, and not sent any more
	at    []part // by node
}

// A part is a claim at one node.
//
// there is false only if the node does not have the key and nothing is on its way that may write it. So whoever gives up
// requests, and removes the key from the nodes where it may be afterwards, leaves nothing.
type part struct {
	busy  bool     // a request is under way
	queue []func() // that wait for their turn
	there bool     // the node may have the key
	wrote uint64   // number of the last request that may have written it
	doubt bool     // a request went unanswered that may yet write the key
}

func (r *Backend) newClaim(q backend.Request, ttl time.Duration) *claim {
	return &claim{
		keys: []string{r.naming.lock(q.Key), r.naming.fence(q.Key), r.naming.birth()}, id: newID() + q.Owner, ttl: ttl,
		at: make([]part, len(r.nodes)),
	}
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

// write has send make a request of this number that may write the key at node i, in its turn, unless it is given up by then: that is
// ErrLost. send tells what came of it, and then done is told.
func (c *claim) write(n *node, i int, number uint64, send func(ended func(trace, error)), done func(error)) {
	c.turn(i, func() {
		c.mu.Lock()
		p := &c.at[i]
		had, last, given := p.there, p.wrote, number <= c.given
		if !given {
			p.there, p.wrote = true, number // whoever ends the claim meanwhile must know
		}
		c.mu.Unlock()
		if given {
			c.next(i)
			done(backend.ErrLost)
			return
		}
		send(func(found trace, err error) {
			c.mu.Lock()
			switch {
			case err == nil && found == untold, err != nil && n.harmless(err):
				p.there, p.wrote = had, last
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

// remove removes the key from node i as far as requests up to number have written it, in its turn, and tells done. What cannot be removed
// now, or may come back, is left to the node's debts; and what a node has that does not answer is only tried if it is urgent.
func (c *claim) remove(r *Backend, i int, number uint64, urgent bool, done func(removal, error)) {
	if !c.part(i).there {
		done(never, nil)
		return
	}
	c.turn(i, func() {
		n := r.nodes[i]
		if !c.part(i).there { // what was under way has been refused
			c.next(i)
			done(never, nil)
			return
		}
		if !urgent && n.isDeaf() {
			c.next(i)
			r.owe(i, c, number)
			done(unknown, errStuck)
			return
		}
		n.post(c.removal(number), func(v any, err error) {
			gone, ok := v.(int64)
			if err == nil && !ok {
				err = exchange.ErrReply(v)
			}
			c.mu.Lock()
			p := &c.at[i]
			sure := err == nil && !p.doubt
			p.there = !sure || number < p.wrote
			c.mu.Unlock()
			c.next(i)
			if sure {
				n.forgive(c, number)
			} else {
				r.owe(i, c, number)
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
func (c *claim) removal(number uint64) exchange.Request {
	return exchange.Request{Script: releaseScript, Keys: c.keys[:1], Args: []any{c.id, number}}
}

// keep is until when a node may have a key that was asked for by now, in a request that lasts no longer than limit.
func (c *claim) keep(limit time.Duration) time.Time {
	return time.Now().Add(c.ttl + keepPad + limit)
}
