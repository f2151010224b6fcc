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
)

// soon bounds what must happen at once on a machine that may be busy.
const soon = 5 * time.Second

func opened(t testing.TB, url string) *Backend {
	t.Helper()
	b, err := openURL(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// raw is a plain client, to look behind the backend.
func raw(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func req(key string, ttl time.Duration) backend.Request {
	return backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl}
}

func waiting(key string, ttl time.Duration) backend.Request {
	r := req(key, ttl)
	r.Wait = true
	return r
}

func acquire(t testing.TB, b backend.Backend, r backend.Request) backend.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := b.Acquire(ctx, r)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

func release(t testing.TB, l backend.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// until polls cond until it holds.
func until(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// queueUp starts an Acquire that waits, and returns when it is the n-th in the queue.
func queueUp(t testing.TB, b *Backend, r backend.Request, n int) <-chan outcome {
	t.Helper()
	done := startAcquire(context.Background(), b, r)
	until(t, soon, "waiter "+strconv.Itoa(n)+" is queued", func() bool {
		h, err := b.Inspect(context.Background(), r.Key)
		return err == nil && h.Waiters >= n
	})
	return done
}

type outcome struct {
	lease backend.Lease
	err   error
	at    time.Time
}

func startAcquire(ctx context.Context, b backend.Backend, r backend.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		l, err := b.Acquire(ctx, r)
		done <- outcome{l, err, time.Now()}
	}()
	return done
}

func granted(t testing.TB, done <-chan outcome, within time.Duration) outcome {
	t.Helper()
	select {
	case o := <-done:
		if o.err != nil {
			t.Fatalf("waiting acquire: %v", o.err)
		}
		return o
	case <-time.After(within):
		t.Fatalf("a waiter was not granted within %v", within)
		panic("unreachable")
	}
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
