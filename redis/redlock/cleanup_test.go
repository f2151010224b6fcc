package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/redis/internal/exchange"
)

// A freeNode is a hook that answers every removal in place of the server: there is no key. It counts the removals. While
// it is down, it answers none.
type freeNode struct {
	removals atomic.Int32
	down     atomic.Bool
}

func (f *freeNode) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *freeNode) ProcessHook(redis.ProcessHook) redis.ProcessHook { return f.answer }

func (f *freeNode) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, cmd := range commands {
			_ = f.answer(ctx, cmd)
		}
		return nil
	}
}

func (f *freeNode) answer(_ context.Context, cmd redis.Cmder) error {
	f.removals.Add(1)
	if f.down.Load() {
		cmd.SetErr(exchange.ErrNoAnswer)
		return exchange.ErrNoAnswer
	}
	cmd.(interface{ SetVal(any) }).SetVal(int64(0))
	return nil
}

// onFreeNode returns a Backend whose nodes are all node.
func onFreeNode(t *testing.T, node *freeNode) *Backend {
	t.Helper()
	var clients []*redis.Client
	for _, addr := range []string{"127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"} {
		c := redis.NewClient(&redis.Options{Addr: addr})
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
func attempted(r *Backend, c *claim, number uint64, found trace, err error) {
	c.write(r.nodes[0], 0, number, func(ended func(trace, error)) { ended(found, err) }, func(error) {})
	r.withdraw(c, number)
}

// After a request without a reply, a node gets two removals, cleanupGap apart, because the request may arrive between
// them. Afterwards the node is known to have no key, and a later attempt that it refuses costs no removal.
func TestNodeIsKnownAgainAfterCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := new(freeNode)
		r := onFreeNode(t, node)
		c := r.newClaim(req("k", claimTTL), claimTTL)
		removed := func(want int32) {
			t.Helper()
			time.Sleep(4 * cleanupGap)
			if got := node.removals.Load(); got != want {
				t.Errorf("%d removals, want %d", got, want)
			}
			if r.hasCleanups() {
				t.Error("a cleanup is left")
			}
		}
		attempted(r, c, 1, traceUnknown, exchange.ErrNoAnswer)
		removed(2)
		attempted(r, c, 2, traceMissing, nil)
		removed(2)
		attempted(r, c, 3, tracePresent, nil)
		removed(3)
		attempted(r, c, 4, traceUnknown, exchange.ErrNoAnswer)
		removed(5)
	})
}

// While a node does not reply, a cleanup lasts for as long as the last request may keep the key, and no longer. A
// request of a renewal may keep the key for longer than the first request.
func TestCleanupLastsAsLongAsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := new(freeNode)
		node.down.Store(true)
		r := onFreeNode(t, node)
		for _, ttl := range []time.Duration{claimTTL, 2 * claimTTL} {
			c := r.newClaim(req("k", claimTTL), claimTTL)
			attempted(r, c, 1, traceUnknown, exchange.ErrNoAnswer)
			if ttl > claimTTL {
				r.renewInRounds(t.Context(), []*renewal{{claim: c, ttl: ttl, number: 2, err: new(error)}})
			}
			time.Sleep(ttl)
			if !r.hasCleanups() {
				t.Errorf("after %v no cleanup is left", ttl)
			}
			time.Sleep(r.options.Timeout + 2*cleanupMost)
			if r.hasCleanups() {
				t.Errorf("a cleanup is left %v after the end of the key", 2*cleanupMost)
			}
		}
	})
}

// If a node replies again, the cleanups of many claims end soon, each after its two removals.
func TestCleanupsOfANodeThatReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := new(freeNode)
		node.down.Store(true)
		r := onFreeNode(t, node)
		const claims = 2 * cleanupBatch
		for range claims {
			attempted(r, r.newClaim(req("k", claimTTL), claimTTL), 1, traceUnknown, exchange.ErrNoAnswer)
		}
		time.Sleep(10 * cleanupMost)
		before := node.removals.Swap(0)
		if before > claims+20 {
			t.Errorf("%d removals to a node that does not reply", before)
		}
		node.down.Store(false)
		time.Sleep(4 * cleanupMost)
		if got := node.removals.Load(); got != 2*claims || r.hasCleanups() {
			t.Errorf("%d removals for %d claims; a cleanup is left: %v", got, claims, r.hasCleanups())
		}
	})
}
