package redlock

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// lastNumber is higher than the number of any request that writes a key. Lua's numbers are exact up to lastNumber.
const lastNumber = 1<<53 - 1

// A claim records what one owner has, or may have, at the nodes: from its first request on, and through the life of its
// lease.
//
// Requests of one owner to one node that may create or remove its key are sent one after the other, because the
// connections of a pool do not keep order. A request that was cancelled is not sent. If a request or removal arrives
// after a later request has written the key, the node ignores it, because its number is lower.
type claim struct {
	keys []string // names at each node: the lock, its fence, and the birth record
	// id is the owner's name at the nodes. It begins with a random part, so that two owners with the same name exclude
	// each other.
	id     string
	ttl    time.Duration // as granted
	token  uint64        // set once the owner is elected
	number atomic.Uint64 // of the last request

	mu            sync.Mutex
	until         time.Time // no node has the key afterwards, even if the last request runs as late as it may
	cancelledUpTo uint64    // requests up to this number are cancelled: they will not be sent
	at            []part    // by node
}

// A part is the state of a claim at one node.
//
// mayHaveKey is false only if the node does not have the key and no request in flight may write it. So if a caller
// first cancels requests, and then removes the key from every node where mayHaveKey is true, no key remains.
type part struct {
	requests   []func()  // the request in progress, then those that wait for its end
	mayHaveKey bool      // the node may have the key
	wrote      uint64    // number of the last request that may have written it
	unsure     bool      // a request that got no reply may still write the key
	absent     time.Time // since when the node has had no key, by its replies to removals after that request
	removed    time.Time // when the node last replied to a removal
}

func (r *Backend) newClaim(q backend.Request, ttl time.Duration) *claim {
	return r.claimOf(q.Key, newID()+q.Owner, ttl)
}

// claimOf returns a new claim of an owner whose name at the nodes is id.
func (r *Backend) claimOf(key, id string, ttl time.Duration) *claim {
	keys := []string{r.naming.lock(key), r.naming.fence(key), r.naming.birth()}
	c := &claim{keys: keys, id: id, ttl: ttl, at: make([]part, len(r.nodes))}
	c.noteKept(r.options.Timeout + ttl)
	return c
}

// noteKept records that a node may keep the key for another d: the rest of the time limit of a request, and the
// TTL.
func (c *claim) noteKept(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := time.Now().Add(d + keepPad); until.After(c.until) {
		c.until = until
	}
}

// cancelUpTo cancels the requests up to number that have not been sent. From now on, mayHaveKey is true for all nodes
// that may have the key.
func (c *claim) cancelUpTo(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelledUpTo = max(c.cancelledUpTo, number)
}

// inOrder runs f when the earlier requests to node i have ended, possibly at once. f calls requestEnded when its own
// request has ended.
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

// write sends a request that may write the key at node i, in order. If the request has been cancelled before it is
// sent, write calls done with ErrLost. Otherwise it calls send, which sends the request and passes to ended whether the
// node has the key, by this request or a later one, or the error; then done gets the error.
func (c *claim) write(n *node, i int, number uint64, send func(ended func(has bool, err error)), done func(error)) {
	c.inOrder(i, func() {
		c.mu.Lock()
		p := &c.at[i]
		had, last, cancelled := p.mayHaveKey, p.wrote, number <= c.cancelledUpTo
		if !cancelled {
			p.mayHaveKey, p.wrote = true, number // set before sending, for callers that end the claim meanwhile
		}
		c.mu.Unlock()
		if cancelled {
			c.requestEnded(i)
			done(backend.ErrLost)
			return
		}
		send(func(has bool, err error) {
			c.noteKept(n.limit + c.ttl)
			c.mu.Lock()
			switch {
			case err == nil:
				p.mayHaveKey = has || p.unsure
			case exchange.Definite(err), errors.Is(err, errNeedsHandshake), errors.Is(err, errNotSent): // it has not run
				p.mayHaveKey, p.wrote = had, last
			default:
				p.unsure, p.absent = true, time.Time{}
			}
			c.mu.Unlock()
			c.requestEnded(i)
			done(err)
		})
	})
}

// ownerOf returns the owner in a claim's id. A foreign value that is too short for an id is returned unchanged.
func ownerOf(id string) string {
	if len(id) <= idLen {
		return id
	}
	return id[idLen:]
}

// remove removes the key from node i, in order, if a request up to number has written it. It calls done with whether
// the node had the key. If the key cannot be removed now, or may come back, remove schedules a cleanup. If the node is
// unresponsive, only an urgent removal is tried at once.
func (c *claim) remove(r *Backend, i int, number uint64, urgent bool, done func(removed bool, err error)) {
	n := r.nodes[i]
	ended := func(removed, sure bool, err error) {
		c.requestEnded(i)
		if sure {
			n.cancelCleanup(c, number)
		} else {
			r.cleanUpLater(i, c, number)
		}
		done(removed, err)
	}
	c.inOrder(i, func() {
		c.mu.Lock()
		mayHaveKey := c.at[i].mayHaveKey
		c.mu.Unlock()
		switch {
		case !mayHaveKey: // for example because the request in progress was refused
			ended(false, true, nil)
			return
		case !urgent && n.isUnresponsive():
			ended(false, false, errNotSent)
			return
		}
		sent := time.Now()
		n.postBool(releaseScript.Request(c.keys[:1], c.id, number), func(removed bool, err error) {
			c.mu.Lock()
			p := &c.at[i]
			sure := err == nil && p.noteRemoval(sent, removed)
			p.mayHaveKey = !sure || number < p.wrote
			c.mu.Unlock()
			ended(removed, sure, err)
		})
	})
}

// noteRemoval records that the node has replied to a removal that was sent at sent, and whether there was a key. It
// reports whether requests without a reply can no longer write the key: they may still arrive for lateArrival.
func (p *part) noteRemoval(sent time.Time, removed bool) bool {
	p.removed = time.Now()
	switch {
	case p.unsure && (removed || p.absent.IsZero()):
		p.absent = p.removed
	case sent.Sub(p.absent) >= lateArrival:
		p.unsure = false
	}
	return !p.unsure
}
