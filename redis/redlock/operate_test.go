package redlock

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
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
