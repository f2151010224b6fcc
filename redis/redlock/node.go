package redlock

import (
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/redis/internal/exchange"
)

// mostCleanups is the most cleanups that an unresponsive node may have before it gets no more vote requests. The
// cleanups show when the node replies again.
const mostCleanups = 32

var errNotSent = fmt.Errorf("request not sent, because of earlier ones: %w", exchange.ErrNoAnswer)

// A node is one server of a fleet.
type node struct {
	name        string
	client      *redis.Client
	batcher     *exchange.Batcher
	limit       time.Duration // time limit of a request: Options.Timeout
	handshaking sync.Mutex    // held during a handshake

	mu           sync.Mutex
	found        handshake // the last handshake that had a result
	handshakeErr error     // why the last handshake failed; nil if a later reply shows that the cause is over
	noVoteUntil  time.Time // the node has no vote before, according to its last reply
	bannedUntil  time.Time // we do not count its vote before, because its clock was set forward
	clock        serverClock
	unresponsive bool              // the last request that has ended got no reply
	peeked       time.Time         // when a waiter last checked the node
	smoothedTime time.Duration     // smoothed response time
	cleanups     map[*claim]uint64 // the keys to remove, if a request up to this number has written them
	cleaning     bool              // a goroutine runs the cleanups
}

func newNode(c *redis.Client, limit time.Duration, start exchange.Starter) *node {
	return &node{
		name: c.Options().Addr, client: c, batcher: exchange.NewBatcher(c, start), limit: limit,
		cleanups: make(map[*claim]uint64),
	}
}

// post sends a request, and passes its outcome to done, which must not block. If the replies of other nodes suffice,
// operations do not wait for this one. A late reply still shows whether a cleanup is needed.
func (n *node) post(q exchange.Request, done func(v any, err error)) {
	begun := time.Now()
	n.batcher.Post(begun.Add(n.limit), q, func(r exchange.Result) {
		n.noteReply(r.Err, time.Since(begun))
		done(r.V, r.Err)
	})
}

// noteReply records how a request ended: with a reply, or with err.
func (n *node) noteReply(err error, took time.Duration) {
	answered := err == nil || exchange.IsReply(err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unresponsive = !answered
	if err == nil && n.handshakeErr != nil && exchange.Passing(n.handshakeErr) {
		n.handshakeErr = nil // the cause is over
	}
	const weight, pause = 8, 100 * time.Millisecond // a longer time shows a pause, not the usual response time
	if answered && took < pause {
		n.smoothedTime += (took - n.smoothedTime) / weight
	}
}

func (n *node) isUnresponsive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unresponsive
}

// mayPeek reports whether a waiter may check the node. Waiters check an unresponsive node once a second: it may reply
// again, and until then each request takes its whole time limit.
func (n *node) mayPeek() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.unresponsive && now.Sub(n.peeked) < time.Second {
		return false
	}
	n.peeked = now
	return true
}

// isSkipped reports whether the node gets no vote requests.
func (n *node) isSkipped() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unresponsive && len(n.cleanups) > mostCleanups
}

// patience returns how long to wait for the node once a quorum has replied: four times its usual response time, at most
// w.node. If its reply is needed, patience is w.needed, unless the last request to the node got no reply.
func (n *node) patience(w window) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.unresponsive && w.needed > 0 {
		return w.needed
	}
	const few, least = 4, time.Millisecond
	return min(w.node, max(few*n.smoothedTime, least))
}

// postBool sends a request whose reply is 1 or 0.
func (n *node) postBool(q exchange.Request, done func(set bool, err error)) {
	n.post(q, func(v any, err error) {
		if err == nil && v != int64(0) && v != int64(1) {
			err = exchange.ErrReply(v)
		}
		done(v == int64(1), err)
	})
}

// lastHandshake returns the last handshake that had a result.
func (n *node) lastHandshake() handshake {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.found
}

// noteVote records for how long the node has no vote, according to its reply to a vote request. That it replied so
// shows that it needs no handshake. noteVote returns why the node has no vote; nil if it has one.
func (n *node) noteVote(d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.handshakeErr, n.noVoteUntil = nil, now.Add(d)
	return n.notReadyLocked(now)
}

// notReady returns why the node has no vote, as far as is known; nil if it has one.
func (n *node) notReady() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.notReadyLocked(time.Now())
}

func (n *node) notReadyLocked(now time.Time) error {
	switch {
	case n.handshakeErr != nil:
		return n.handshakeErr
	case n.found.unfit != nil:
		return n.found.unfit
	case n.noVoteUntil.After(now):
		return &noVoteError{n.noVoteUntil, whyYoung}
	case n.bannedUntil.After(now):
		return &noVoteError{n.bannedUntil, whyForward}
	}
	return nil
}
