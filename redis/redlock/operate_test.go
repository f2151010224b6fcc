package redlock

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/redistest"
)

// A scanned is a hook that answers SCAN in place of the server.
type scanned struct{ names []string }

func (s scanned) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s scanned) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.(*redis.ScanCmd).SetVal(s.names, 0)
		return nil
	}
}

func (s scanned) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A scan ignores names that are not those of locks, although a server should not return them.
func TestScanOfForeignNames(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer c.Close()
	c.AddHook(scanned{[]string{"x", "foreign:lock:app", "ours:lock:app", "ours:lock:other"}})
	keys, err := scanKeys(t.Context(), c, "ours:lock:", "app")
	if got := slices.Collect(maps.Keys(keys)); err != nil || !slices.Equal(got, []string{"app"}) {
		t.Errorf("%q, %v, want app", got, err)
	}
}

// Break waits for a node that replies later than the others, so that no node has the lease when Break returns.
func TestBreakWaitsForSlowNode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	holder, r := f.open(), f.open()
	const tries = 5
	for range tries { // on a busy machine, the node may reply too late
		l := acquire(t, holder, req("k", claimTTL))
		f.whole(holder, l)
		f.nodes[2].Freeze()
		thawed := time.AfterFunc(100*time.Millisecond, f.nodes[2].Thaw)
		defer thawed.Stop()
		if err := r.Break(t.Context(), "k", l.(*kit.Life).Owner()); err != nil {
			t.Fatal(err)
		}
		n := r.nodes[2]
		n.mu.Lock()
		pending := len(n.cleanups)
		n.mu.Unlock()
		if pending == 0 {
			return
		}
		f.free("k")
	}
	t.Errorf("%d times, Break returned before the slow node had removed the lease", tries)
}
