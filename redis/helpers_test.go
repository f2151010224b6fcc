package redis

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// soon bounds what must happen at once on a machine that may be busy.
const soon = storetest.Soon

type outcome = storetest.Outcome

// What all stores' tests do.
var (
	opened       = storetest.Opened[*Backend]
	req          = storetest.Try
	waiting      = storetest.Wait
	acquire      = storetest.Acquire
	release      = storetest.Release
	until        = storetest.Until
	startAcquire = storetest.Start
	queueUp      = storetest.QueueUp
	granted      = storetest.Granted
)

// raw is a plain client, to look behind the backend.
func raw(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// cluster is three masters, which only the complete run starts.
func cluster(t testing.TB) []*servers.Server {
	t.Helper()
	storetest.Long(t, "a cluster")
	return servers.RedisCluster(t, 3)
}

// clusterNode is a server of a cluster that was never made.
func clusterNode(t testing.TB) *servers.Server {
	t.Helper()
	return servers.Redis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
}

// commands counts what the server has executed, calls within scripts too, by INFO commandstats.
func commands(t testing.TB, c *redis.Client) map[string]int {
	t.Helper()
	text, err := c.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for name, stat := range parseInfo(text) {
		calls, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
		n, err := strconv.Atoi(calls)
		if err != nil {
			t.Fatal(err)
		}
		if name = strings.TrimPrefix(name, "cmdstat_"); name != "info" {
			counts[name] = n
		}
	}
	return counts
}

// since returns what was executed between two counts, and its sum.
func since(before, after map[string]int) (diff map[string]int, sum int) {
	diff = make(map[string]int)
	for name, n := range after {
		if d := n - before[name]; d != 0 {
			diff[name] = d
			sum += d
		}
	}
	return diff, sum
}

func held1(err error) (*backend.HeldError, bool) {
	var h *backend.HeldError
	ok := errors.As(err, &h)
	return h, ok
}

// settledGoroutines is the number of goroutines when it has stopped falling.
func settledGoroutines() int {
	least := runtime.NumGoroutine()
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		least = min(least, runtime.NumGoroutine())
	}
	return least
}
