package redlock

import (
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/redis/internal/exchange"
)

// A node that does not answer, and has so many cleanups left, is asked for no votes: the cleanups show when it answers
// again.
const mostCleanups = 32

var errStuck = fmt.Errorf("request not sent, because of earlier ones: %w", exchange.ErrNoAnswer)

// A node is one server of a fleet.
type node struct {
	name        string
	client      *redis.Client
	batcher     *exchange.Batcher
	limit       time.Duration // of a request, Options.Timeout
	handshaking sync.Mutex    // held during a handshake

	mu           sync.Mutex
	found        handshake // the last one that had a result
	handshakeErr error     // why the last one failed
	noVoteUntil  time.Time // it has no vote before, by what it said last
	bannedUntil  time.Time // it has no vote with us before, because its clock was set forward
	clock        serverClock
	unresponsive bool          // the last request that has ended was not answered
	usual        time.Duration // how long an answer takes, smoothed
	cleanups     map[*claim]*cleanup
	cleaning     bool // a goroutine makes them
}

func newNode(c *redis.Client, limit time.Duration, start exchange.Starter) *node {
	return &node{
		name: c.Options().Addr, client: c, batcher: exchange.NewBatcher(c, start), limit: limit,
		cleanups: make(map[*claim]*cleanup),
	}
}

// post makes a request; done gets its outcome, and must not block. No operation waits as long as the request may take,
// while others suffice; the answer of a slow node still says what there is to clean up.
func (n *node) post(q exchange.Request, done func(v any, err error)) {
	begun := time.Now()
	n.batcher.Post(begun.Add(n.limit), q, func(r exchange.Result) {
		n.noteReply(r.Err == nil || exchange.IsReply(r.Err), time.Since(begun))
		done(r.V, r.Err)
	})
}

// noteReply notes how a request ended.
func (n *node) noteReply(answered bool, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unresponsive = !answered
	const weight, pause = 8, 100 * time.Millisecond // what takes longer shows a pause, not of what is usual
	if answered && took < pause {
		n.usual += (took - n.usual) / weight
	}
}

func (n *node) isUnresponsive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unresponsive
}

// isSkipped reports whether the node is asked for no votes.
func (n *node) isSkipped() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unresponsive && len(n.cleanups) > mostCleanups
}

// patience is how long to wait for the node when a quorum has answered: a few times what it usually takes. If what it
// says is needed it is waited for longer, unless it has left a request unanswered.
func (n *node) patience(w window) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.unresponsive && w.needed > 0 {
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
		n.bannedUntil = s.received.Add(ban)
	}
	switch left := n.bannedUntil.Sub(s.received); {
	case left > 0:
		return &noVoteError{left: left, why: whyForward}
	case step < 0:
		return fmt.Errorf("its clock was set back by %v", -step)
	}
	return nil
}

// lastHandshake is the last handshake that had a result.
func (n *node) lastHandshake() handshake {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.found
}

// deferVote notes for how long the node says that it has no vote.
func (n *node) deferVote(left time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handshakeErr, n.noVoteUntil = nil, time.Now().Add(left)
}

// notReady says why the node has no vote, as far as is known.
func (n *node) notReady() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch young, jumped := time.Until(n.noVoteUntil), time.Until(n.bannedUntil); {
	case n.handshakeErr != nil:
		return n.handshakeErr
	case n.found.unfit != nil:
		return n.found.unfit
	case young > 0:
		return &noVoteError{left: young, why: whyYoung}
	case jumped > 0:
		return &noVoteError{left: jumped, why: whyForward}
	}
	return nil
}
