package etcd

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/anylock/lock/backend"
)

// soon bounds what must happen at once on a machine that may be busy.
const soon = 5 * time.Second

// raw is a plain client, to look behind the backend.
func raw(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

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

// queueUp starts an Acquire that waits, and returns when it is the n-th in the queue.
func queueUp(t testing.TB, b *Backend, r backend.Request, n int) <-chan outcome {
	t.Helper()
	done := startAcquire(context.Background(), b, r)
	until(t, soon, "one more waiter is queued", func() bool {
		h, err := b.Inspect(context.Background(), r.Key)
		return err == nil && h.Waiters >= n
	})
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
