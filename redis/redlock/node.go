package redlock

import (
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/redis/internal/exchange"
)

// A node that does not answer, with so much to be removed from it, is asked for no votes: who sees to that finds out
// when it answers.
const mostOwed = 32

var errStuck = fmt.Errorf("request not sent, because of earlier ones: %w", exchange.ErrNoAnswer)

// A node is one server of a fleet.
type node struct {
	name    string
	client  *redis.Client
	batcher *exchange.Batcher
	limit   time.Duration // of a request, Options.Timeout
	meet    sync.Mutex    // held while the node is being met

	mu     sync.Mutex
	found  acquaintance // of the last meeting that had a result
	unmet  error        // why it could not be met; nil if it has been
	barred time.Time    // it has no vote before, by what it said last
	out    time.Time    // it has no vote with us before, because its clock was set forward
	clock  serverClock
	deaf   bool          // the last request that has ended was not answered
	usual  time.Duration // how long an answer takes, smoothed
	debts  map[*claim]*debt
	paying bool // a goroutine sees to debts
}

func newNode(c *redis.Client, limit time.Duration, start exchange.Starter) *node {
	return &node{
		name: c.Options().Addr, client: c, batcher: exchange.NewBatcher(c, start), limit: limit,
		debts: make(map[*claim]*debt),
	}
}

// post makes a request; done gets its outcome, and must not block. No operation waits as long as the request may take,
// while others suffice; the answer of a slow node still says what there is to clean up.
func (n *node) post(q exchange.Request, done func(v any, err error)) {
	begun := time.Now()
	n.batcher.Post(begun.Add(n.limit), q, func(r exchange.Result) {
		n.heard(r.Err == nil || exchange.IsReply(r.Err), time.Since(begun))
		done(r.V, r.Err)
	})
}

// heard notes how a request ended.
func (n *node) heard(answered bool, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = !answered
	const weight, pause = 8, 100 * time.Millisecond // what takes longer shows a pause, not of what is usual
	if answered && took < pause {
		n.usual += (took - n.usual) / weight
	}
}

func (n *node) isDeaf() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.deaf
}

// isLeftAlone reports whether the node is asked for no votes.
func (n *node) isLeftAlone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.deaf && len(n.debts) > mostOwed
}

// patience is how long to wait for the node when a quorum has answered: a few times what it usually takes. If what it
// says is needed it is waited for longer, unless it has left a request unanswered.
func (n *node) patience(w window) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.deaf && w.needed > 0 {
		return w.needed
	}
	const few, least = 4, time.Millisecond
	return min(w.node, max(few*n.usual, least))
}

// flag makes a request that is answered by 1 or 0.
func (n *node) flag(q exchange.Request, done func(set bool, err error)) {
	n.post(q, func(v any, err error) {
		if err == nil && v != int64(0) && v != int64(1) {
			err = exchange.ErrReply(v)
		}
		done(v == int64(1), err)
	})
}

// observe compares the node's clock with ours. A clock that was set forward has ended leases early: the node loses its
// vote for as long as one of them could have lasted.
func (n *node) observe(s clockSample, ban time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	step := n.clock.observe(s)
	if step > 0 {
		n.out = s.received.Add(ban)
	}
	switch left := n.out.Sub(s.received); {
	case left > 0:
		return &noVoteError{left: left, why: whyForward}
	case step < 0:
		return fmt.Errorf("its clock was set back by %v", -step)
	}
	return nil
}

// acquaintance is what the last meeting with the node has shown.
func (n *node) acquaintance() acquaintance {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.found
}

// bar notes for how long the node says that it has no vote.
func (n *node) bar(left time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unmet, n.barred = nil, time.Now().Add(left)
}

// notReady says why the node has no vote, as far as is known.
func (n *node) notReady() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch young, jumped := time.Until(n.barred), time.Until(n.out); {
	case n.unmet != nil:
		return n.unmet
	case n.found.outcast != nil:
		return n.found.outcast
	case young > 0:
		return &noVoteError{left: young, why: whyYoung}
	case jumped > 0:
		return &noVoteError{left: jumped, why: whyForward}
	}
	return nil
}
