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

// A freeNode is a hook that answers every removal in place of the server: there is no key. It counts the removals.
type freeNode struct{ removals atomic.Int32 }

func (f *freeNode) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *freeNode) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		f.removals.Add(1)
		cmd.(interface{ SetVal(any) }).SetVal(int64(0))
		return nil
	}
}

func (f *freeNode) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// After a request without a reply, a node gets two removals, cleanupGap apart, because the request may arrive between
// them. Afterwards the node is known to have no key, and a later attempt that it refuses costs no removal.
func TestNodeIsKnownAgainAfterCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clients []*redis.Client
		node := new(freeNode)
		for _, addr := range []string{"h1:1", "h2:1", "h3:1"} {
			c := redis.NewClient(&redis.Options{Addr: addr})
			c.AddHook(node)
			defer c.Close()
			clients = append(clients, c)
		}
		r, err := onClients(clients, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		c := r.newClaim(req("k", claimTTL), claimTTL)
		attempt := func(number uint64, found trace, err error) {
			c.write(r.nodes[0], 0, number, func(ended func(trace, error)) { ended(found, err) }, func(error) {})
			r.withdraw(c, number)
		}
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
		attempt(1, traceUnknown, exchange.ErrNoAnswer)
		removed(2)
		attempt(2, traceMissing, nil)
		removed(2)
		attempt(3, tracePresent, nil)
		removed(3)
		attempt(4, traceUnknown, exchange.ErrNoAnswer)
		removed(5)
	})
}
