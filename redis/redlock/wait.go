package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A waiter polls with random pauses that grow from leastPause to mostPause. If an election ties, because several owners
// got some of the nodes each, the random pauses decide. While there is no quorum, the pauses grow to repeatPause.
const (
	leastPause  = 2 * time.Millisecond
	mostPause   = 100 * time.Millisecond
	repeatPause = 500 * time.Millisecond
)

// slowStart is how long a waiter treats a fleet that does not reply as slow, and not as down.
const slowStart = endpoint.OpenTimeout

// peek checks one node after the other, until one has the key or a quorum is free of it. This costs a node one command,
// while an attempt costs every node a script. The result is a hint, which is wrong if a node has missed a release. The
// order is random, so that before long a peek finds a quorum that is free before it reaches such a node. If ctx ends
// meanwhile, the key counts as held, because nobody waits for an attempt any more.
func (a *candidate) peek(ctx context.Context) (held bool) {
	free := 0
	for _, i := range rand.Perm(len(a.r.nodes)) {
		n := a.r.nodes[i]
		if !n.mayPeek() {
			continue
		}
		remaining, ok := a.peekAt(ctx, n)
		switch {
		case ok && remaining != keyAbsent:
			h := a.busy.Holder
			h.TTL = max(remaining-keepPad, 0)
			a.busy = &backend.HeldError{Holder: h}
			return true
		case ok:
			free++
		case ctx.Err() != nil:
			return true
		}
		if free > len(a.r.nodes)/2 {
			return false
		}
	}
	return false
}

// keyAbsent is the reply of PTTL for a missing key.
const keyAbsent = -2 * time.Millisecond

// peekAt returns for how long one node still has the key.
func (a *candidate) peekAt(ctx context.Context, n *node) (remaining time.Duration, ok bool) {
	replies := make(chan exchange.Result, 1)
	n.post(exchange.Request{Args: []any{"pttl", a.c.keys[0]}}, func(v any, err error) {
		replies <- exchange.Result{V: v, Err: err}
	})
	select {
	case reply := <-replies:
		ms, ok := reply.V.(int64)
		return time.Duration(ms) * time.Millisecond, ok && reply.Err == nil
	case <-time.After(nodeTimeout(a.c.ttl)):
	case <-ctx.Done():
	}
	return 0, false
}
