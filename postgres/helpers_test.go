package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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

// dialed is a plain connection, to look behind the backend.
func dialed(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// query reads one value.
func query[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
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
	queued(t, b, r.Key, n)
	return done
}

func queued(t testing.TB, b *Backend, key string, n int) {
	t.Helper()
	until(t, soon, "a waiter is queued", func() bool {
		h, err := b.Inspect(context.Background(), key)
		return err == nil && h.Waiters >= n
	})
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

// lost waits for the loss of a lease.
func lost(t testing.TB, l backend.Lease, within time.Duration) {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(within):
		t.Fatalf("Lost is not closed within %v", within)
	}
}

// locks counts the advisory locks of the server, held and waited for.
func locks(t testing.TB, c *pgx.Conn) int {
	t.Helper()
	return query[int](t, c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
}
