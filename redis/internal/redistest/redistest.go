// Package redistest has helpers for the tests of the stores on Redis.
package redistest

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/redis/go-redis/v9"
)

// Raw returns a client of go-redis, with which a test reads or changes the server's data without the backend.
func Raw(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Commands returns how often the server has executed each command, including calls from scripts, by INFO commandstats.
func Commands(t testing.TB, c *redis.Client) map[string]int {
	t.Helper()
	text, err := c.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for name, stat := range endpoint.ParseInfo(text) {
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

// Since returns how often each command was executed between two results of Commands, and the sum.
func Since(before, after map[string]int) (diff map[string]int, sum int) {
	diff = make(map[string]int)
	for name, n := range after {
		if d := n - before[name]; d != 0 {
			diff[name] = d
			sum += d
		}
	}
	return diff, sum
}

// FewestGoroutines returns the least number of goroutines within 300 ms, so that goroutines that are about to end do
// not count.
func FewestGoroutines() int {
	least := runtime.NumGoroutine()
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

// User creates a user with these rights and no others, and returns the server's URL with the user's credentials.
func User(t *testing.T, c *redis.Client, name string, rights []string) string {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">secret"}
	for _, r := range rights {
		args = append(args, r)
	}
	if err := c.Do(context.Background(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return "redis://" + name + ":secret@" + c.Options().Addr
}

// Durable has the options of a server that writes every change to disk before it replies.
var Durable = []string{"--appendonly", "yes", "--appendfsync", "always"}
