package memcached

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// soon bounds what must happen at once on a machine that may be busy.
const soon = 5 * time.Second

// openURL opens a store as package lock does.
func openURL(ctx context.Context, url string) (*Backend, error) {
	b, _, err := backend.DefaultMux.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return b.(*Backend), nil
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

// raw is a plain client, to look behind the backend.
func raw(t testing.TB, addr string) *memcache.Client {
	t.Helper()
	c := memcache.New(addr)
	c.Timeout = soon
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// left asks how many seconds an item has left to live, which the client library cannot.
func left(t testing.TB, addr, name string) int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, soon)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	fmt.Fprintf(conn, "mg %s t\r\n", name)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var seconds int
	if _, err := fmt.Sscanf(strings.TrimSpace(line), "HD t%d", &seconds); err != nil {
		t.Fatalf("mg %s: %q", name, line)
	}
	return seconds
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

func isHeld(t testing.TB, b backend.Backend, key string) {
	t.Helper()
	if _, err := b.Acquire(context.Background(), req(key, time.Second)); !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("acquire of %q: %v, want ErrHeld", key, err)
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
