package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

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
