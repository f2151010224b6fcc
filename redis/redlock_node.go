package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/calls"
)

const (
	// A node that has answered nobody for so long, though asked, is not waited for if others suffice.
	hungTime = 100 * time.Millisecond
	// A node that hangs with so many requests under way is asked for no vote that is not needed, and for nothing at all once
	// it has answered none of them for half of the time that each has.
	stuckRequests = 32
)

var errStuck = errors.New("node does not answer; request not sent")

// A node is one server of a fleet.
type node struct {
	name   string
	client *redis.Client
	lanes  *lanes        // carry the requests of single leases
	single bool          // the client makes no attempts of its own
	limit  time.Duration // of a request, RedlockOptions.Timeout
	meet   chan struct{} // full while the node is being met

	mu       sync.Mutex
	run      string    // the incarnation that has been met; empty for none
	id       string    // of its data
	metAt    time.Time // when the last meeting that told something began
	outcast  error     // why it must not vote; nil if it may
	unmet    error     // why it could not be met; nil if it has been
	barred   time.Time // it has no vote before, by what it said last
	out      time.Time // it has no vote with us before, because its clock was set forward
	clock    serverClock
	requests int           // under way
	silent   time.Time     // since when none of them has been answered
	usual    time.Duration // how long an answer takes, smoothed
	debts    map[string]*debt
	paying   bool // a goroutine sees to debts
}

func newNode(c *redis.Client, limit time.Duration, inUse *calls.Calls) *node {
	o := c.Options()
	return &node{
		name: o.Addr, client: c, lanes: newLanes(c, inUse), single: o.MaxRetries == 0, limit: limit,
		meet: make(chan struct{}, 1), debts: make(map[string]*debt),
	}
}

// begin counts a request in, unless the node hangs.
func (n *node) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.requests == 0 {
		n.silent = time.Now()
	}
	if n.requests >= stuckRequests && time.Since(n.silent) > n.limit/2 {
		return false
	}
	n.requests++
	return true
}

// hangs reports whether requests are under way to the node that it does not answer.
func (n *node) hangs() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests > 0 && time.Since(n.silent) > hungTime
}

// crowded reports whether the node hangs with many requests under way.
func (n *node) crowded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests >= stuckRequests && time.Since(n.silent) > hungTime
}

// patience is how much longer to wait for the node before it counts as hung: limit since it last answered anybody, or a few
// times what it usually takes, on a machine or network that is slow.
func (n *node) patience(limit time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	const few = 4
	return max(limit, few*n.usual) - time.Since(n.silent)
}

func (n *node) finish(answered bool, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests--
	if !answered {
		return
	}
	n.silent = time.Now()
	const weight = 8
	if took < hungTime { // what takes longer tells of a pause, not of what is usual
		n.usual += (took - n.usual) / weight
	}
}

// do makes a request of the client. It ends at the node's limit, if the client keeps to deadlines. No operation waits so long for one
// node while others suffice; the answer of a slow one still tells what there is to clean up, and a connection that is being made
// can be used by the next operation.
func (n *node) do(f func(ctx context.Context) (any, error)) (any, error) { return n.within(n.limit, f) }

// within is do with another limit.
func (n *node) within(limit time.Duration, f func(ctx context.Context) (any, error)) (any, error) {
	if !n.begin() {
		return nil, errStuck
	}
	begun := time.Now()
	ctx := deadlineContext{context.Background(), begun.Add(limit)}
	v, err := f(ctx)
	n.finish(err == nil || isReply(err), time.Since(begun))
	if err != nil && isContextError(err) {
		err = noAnswer(time.Since(begun), err)
	}
	return v, err
}

// eval runs a script.
func (n *node) eval(s script, keys []string, args ...any) (any, error) {
	return n.do(func(ctx context.Context) (any, error) {
		end, _ := ctx.Deadline()
		return n.lanes.do(context.Background(), end, request{script: s, keys: keys, args: args})
	})
}

// evalAll makes requests side by side. Its error is the first.
func (n *node) evalAll(list []request) (results []result, err error) {
	_, err = n.do(func(ctx context.Context) (any, error) {
		end, _ := ctx.Deadline()
		results = n.lanes.doAll(context.Background(), end, list)
		for _, r := range results {
			if r.err != nil {
				return nil, r.err
			}
		}
		return nil, nil
	})
	return results, err
}

// harmless reports whether a request that failed with err has certainly not been carried out, nor will be.
func (n *node) harmless(err error) bool {
	return errors.Is(err, errStuck) || errors.Is(err, errLane) || definite(err, n.single)
}

// observe compares the node's clock with ours. A clock that was set forward has ended leases early: the node loses its vote
// for as long as one of them could have lasted.
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

// standing returns the incarnation of the node that has been met, and why it must not vote.
func (n *node) standing() (run string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.run, n.outcast
}
