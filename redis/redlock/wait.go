package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A waiter retries after random pauses that grow from leastPause to mostPause. If an election ties, because several
// owners got some of the nodes each, the random pauses decide.
const (
	leastPause = 2 * time.Millisecond
	mostPause  = 100 * time.Millisecond
)

// slowStart is how long a waiter treats a fleet that does not reply as slow, and not as down.
const slowStart = endpoint.OpenTimeout

// A waiter is one Acquire that waits.
type waiter struct {
	r     *Backend
	q     backend.Request
	c     *claim
	begun time.Time
	busy  *backend.HeldError // the last refusal by a quorum; nil before the first
}

func (r *Backend) newWaiter(q backend.Request, c *claim) *waiter {
	return &waiter{r: r, q: q, c: c, begun: time.Now()}
}

// try makes an attempt, unless the key is still busy. It makes more attempts while a quorum may soon reply.
func (w *waiter) try(ctx context.Context) (backend.Lease, error) {
	if w.busy != nil && w.r.peek(ctx, w) {
		return nil, w.busy
	}
	for {
		l, _, err := w.r.elect(ctx, w.q, w.c)
		var held *backend.HeldError
		var none *noQuorumError
		switch {
		case errors.As(err, &held):
			w.busy = held
			return nil, err
		case !errors.As(err, &none):
			return l, err
		}
		const most = time.Second // another node may reply sooner
		remaining := min(none.wait(), most)
		if remaining <= 0 && (!none.slow() || time.Since(w.begun) > slowStart) {
			return l, err
		}
		if kit.Sleep(ctx, remaining+rand.N(mostPause)) != nil {
			return nil, kit.ContextError(ctx, none)
		}
	}
}

// peek checks one node after the other, until one has the key or a quorum is free of it. This costs a node one command,
// while an attempt costs every node a script. The result is a hint, which is wrong if a node has missed a release. The
// order is random, so that before long a peek finds a quorum that is free before it reaches such a node.
func (r *Backend) peek(ctx context.Context, w *waiter) (held bool) {
	free := 0
	for _, i := range rand.Perm(len(r.nodes)) {
		n := r.nodes[i]
		if !n.mayPeek() {
			continue
		}
		remaining, ok := r.peekAt(ctx, n, w.c)
		switch {
		case ok && remaining != keyAbsent:
			h := w.busy.Holder
			h.TTL = max(remaining-keepPad, 0)
			w.busy = &backend.HeldError{Holder: h}
			return true
		case ok:
			free++
		case ctx.Err() != nil:
			return false
		}
		if free > len(r.nodes)/2 {
			return false
		}
	}
	return false
}

// keyAbsent is the reply of PTTL for a missing key.
const keyAbsent = -2 * time.Millisecond

// peekAt returns for how long one node still has the key.
func (r *Backend) peekAt(ctx context.Context, n *node, c *claim) (remaining time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout(c.ttl))
	defer cancel()
	replies := make(chan exchange.Result, 1)
	n.post(exchange.Request{Args: []any{"pttl", c.keys[0]}}, func(v any, err error) {
		replies <- exchange.Result{V: v, Err: err}
	})
	select {
	case reply := <-replies:
		ms, ok := reply.V.(int64)
		return time.Duration(ms) * time.Millisecond, ok && reply.Err == nil
	case <-ctx.Done():
		return 0, false
	}
}
