package redlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/redis/internal/exchange"
)

// A fakeNode is a hook that answers in place of the server, and counts the requests. While it is down, it answers none.
type fakeNode struct {
	reply    any
	requests atomic.Int32
	down     atomic.Bool
}

// freeNode returns a node that has no key to remove.
func freeNode() *fakeNode { return &fakeNode{reply: int64(0)} }

func (f *fakeNode) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fakeNode) ProcessHook(redis.ProcessHook) redis.ProcessHook { return f.answer }

func (f *fakeNode) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, cmd := range commands {
			_ = f.answer(ctx, cmd)
		}
		return nil
	}
}

func (f *fakeNode) answer(_ context.Context, cmd redis.Cmder) error {
	f.requests.Add(1)
	if f.down.Load() {
		cmd.SetErr(exchange.ErrNoAnswer)
		return exchange.ErrNoAnswer
	}
	cmd.(interface{ SetVal(any) }).SetVal(f.reply)
	return nil
}

// onNodes returns a Backend with these nodes.
func onNodes(t *testing.T, nodes ...*fakeNode) *Backend {
	t.Helper()
	var clients []*redis.Client
	for i, node := range nodes {
		c := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.%d:1", i+1)})
		c.AddHook(node)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	r, err := onClients(clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// attempted records a request to node 0 that ended like this, and withdraws it.
func attempted(r *Backend, c *claim, number uint64, has bool, err error) {
	c.write(r.nodes[0], 0, number, func(ended func(bool, error)) { ended(has, err) }, func(error) {})
	r.withdraw(c, number)
}

// mostRemovals is how many removals a claim can cost at a node that replies, after a request without a reply.
const mostRemovals = 2 + int32(lateArrival/cleanupGap)

// After a request without a reply, a node gets removals for lateArrival, because the request may arrive between them.
// Afterwards the node is known to have no key, and a later attempt that it refuses costs no removal.
func TestNodeIsKnownAgainAfterCleanup(t *testing.T) {
	t.Parallel()
	node := freeNode()
	r := onNodes(t, node, node, node)
	c := r.newClaim(req("k", claimTTL), claimTTL)
	for i, attempt := range []struct {
		has         bool
		err         error
		least, most int32 // removals
		lasts       time.Duration
	}{
		{false, exchange.ErrNoAnswer, 2, mostRemovals, lateArrival},
		{false, nil, 0, 0, 0},
		{true, nil, 1, 1, 0},
		{false, exchange.ErrNoAnswer, 2, mostRemovals, lateArrival},
	} {
		node.requests.Store(0)
		begun := time.Now()
		attempted(r, c, uint64(i+1), attempt.has, attempt.err)
		waitIdle(t, r)
		if got := node.requests.Load(); got < attempt.least || got > attempt.most || r.hasCleanups() {
			t.Errorf("attempt %d: %d removals, want %d to %d; a cleanup is left: %v", i+1, got, attempt.least, attempt.most,
				r.hasCleanups())
		}
		if took := time.Since(begun); took < attempt.lasts {
			t.Errorf("attempt %d: removals for %v, want at least %v", i+1, took, attempt.lasts)
		}
	}
}

// A removal that finds a key shows that requests still arrive late, so the removals go on for another lateArrival.
func TestKeyThatComesLateProlongsCleanup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := part{unsure: true}
		for _, removal := range []struct {
			pause   time.Duration // before the removal
			removed bool
			sure    bool
		}{
			{0, false, false},
			{lateArrival, true, false},
			{lateArrival - 1, false, false},
			{1, false, true},
		} {
			time.Sleep(removal.pause)
			if sure := p.noteRemoval(time.Now(), removal.removed); sure != removal.sure {
				t.Errorf("%+v: sure %v", removal, sure)
			}
		}
	})
}

// While a node does not reply, a cleanup lasts for as long as the last request may keep the key, and no longer. A
// renewal may keep the key for longer than the first request.
func TestCleanupLastsAsLongAsTheKey(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{minTTL, 2 * minTTL} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			node := freeNode()
			node.down.Store(true)
			r := onNodes(t, node, node, node)
			c := r.newClaim(req("k", minTTL), minTTL)
			begun := time.Now()
			attempted(r, c, 1, false, exchange.ErrNoAnswer)
			if ttl > minTTL {
				r.renewAll(t.Context(), []*renewal{c.newRenewal(ttl, new(error))})
			}
			until(t, 3*soon, "the cleanup has ended", r.leases.Idle) // pauses of up to cleanupMost come on top of the time
			if took := time.Since(begun); took < ttl || r.hasCleanups() {
				t.Errorf("cleaned up for %v, want at least %v; a cleanup is left: %v", took, ttl, r.hasCleanups())
			}
		})
	}
}

// If a node replies again, the cleanups of many claims end soon, each after a few removals.
func TestCleanupsOfANodeThatReplies(t *testing.T) {
	t.Parallel()
	node := freeNode()
	node.down.Store(true)
	r := onNodes(t, node, node, node)
	const claims = 2 * cleanupBatch
	for range claims {
		attempted(r, r.newClaim(req("k", claimTTL), claimTTL), 1, false, exchange.ErrNoAnswer)
	}
	time.Sleep(5 * cleanupFirst) // sleeps: the node stays silent
	const few = 20
	if got := node.requests.Swap(0); got > claims+few {
		t.Errorf("%d removals for %d claims to a node that does not reply", got, claims)
	}
	node.down.Store(false)
	waitIdle(t, r)
	if got := node.requests.Load(); got > mostRemovals*claims+few || r.hasCleanups() {
		t.Errorf("%d removals for %d claims; a cleanup is left: %v", got, claims, r.hasCleanups())
	}
}
