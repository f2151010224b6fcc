// Package storetest contains the steps on a Backend that the tests of all stores share. Each step ends the test if it
// fails.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// Soon limits an event that is immediate unless the machine is busy.
const Soon = 5 * time.Second

// NoServer is an address on which no server listens. A port that was just free may be used by another test by now.
const NoServer = "127.0.0.1:1"

// Parse returns the parts of a URL, as parsed by the store's driver.
func Parse(url string) (driver.URL, error) {
	d, err := driver.Lookup(url)
	if err != nil {
		return driver.URL{}, err
	}
	return d.Parse(url)
}

// OpenURL opens a store of type B as package lock does.
func OpenURL[B backend.Backend](ctx context.Context, url string) (B, error) {
	b, _, err := driver.Open(ctx, url)
	if err != nil {
		var none B
		return none, err
	}
	return b.(B), nil
}

// Opened is OpenURL for a test, which closes the store at its end. If the server does not respond within the store's
// limit for opening, because the machine is busy, Opened retries.
func Opened[B backend.Backend](t testing.TB, url string) B {
	t.Helper()
	b, err := OpenURL[B](context.Background(), url)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, backend.ErrUnavailable) && time.Now().Before(end); {
		b, err = OpenURL[B](context.Background(), url)
	}
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

// Try returns a request of a new owner that does not wait.
func Try(key string, ttl time.Duration) backend.Request {
	return backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl}
}

// Wait returns a request of a new owner that waits.
func Wait(key string, ttl time.Duration) backend.Request {
	r := Try(key, ttl)
	r.Wait = true
	return r
}

// Acquire acquires and returns a lease. It fails the test if the lease is not granted.
func Acquire(t testing.TB, b backend.Backend, r backend.Request) backend.Lease {
	t.Helper()
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := b.Acquire(ctx, r)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

// Release releases a lease. It fails the test if the release fails.
func Release(t testing.TB, l backend.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// Until polls cond until it is true. It fails the test after within.
func Until(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// ThreeTries calls f until it returns nil, at most three times. It is for measurements that fail if the machine stands
// still for a second. A fault of the store must make f fail each time.
func ThreeTries(t testing.TB, f func() error) {
	t.Helper()
	const tries = 3
	for n := 1; ; n++ {
		err := f()
		if err == nil {
			return
		}
		if n == tries {
			t.Fatal(err)
		}
		t.Logf("try %d: %v", n, err)
	}
}

// Within fails the test unless f takes at most that long in one of three tries.
func Within(t testing.TB, most time.Duration, what string, f func()) {
	t.Helper()
	ThreeTries(t, func() error {
		begun := time.Now()
		f()
		if took := time.Since(begun); took > most {
			return fmt.Errorf("%s took %v, want at most %v", what, took, most)
		}
		return nil
	})
}

// An Outcome is the result of an Acquire, and when it arrived.
type Outcome struct {
	Lease backend.Lease
	Err   error
	At    time.Time
}

// Start starts an Acquire in the background.
func Start(ctx context.Context, b backend.Backend, r backend.Request) <-chan Outcome {
	done := make(chan Outcome, 1)
	go func() {
		l, err := b.Acquire(ctx, r)
		done <- Outcome{l, err, time.Now()}
	}()
	return done
}

// QueueUp starts an Acquire, and returns when at least n waiters are in the queue.
func QueueUp(t testing.TB, b backend.Backend, r backend.Request, n int) <-chan Outcome {
	t.Helper()
	done := Start(context.Background(), b, r)
	Queued(t, b, r.Key, n)
	return done
}

// Queued returns when at least n waiters are in the queue for key.
func Queued(t testing.TB, b backend.Backend, key string, n int) {
	t.Helper()
	Until(t, Soon, "waiter "+strconv.Itoa(n)+" is queued", func() bool {
		h, err := b.Inspect(context.Background(), key)
		return err == nil && h.Waiters >= n
	})
}

// Granted waits for the result of an Acquire. It fails the test if the result is not a grant.
func Granted(t testing.TB, done <-chan Outcome, within time.Duration) Outcome {
	t.Helper()
	select {
	case o := <-done:
		if o.Err != nil {
			t.Fatalf("waiting acquire: %v", o.Err)
		}
		return o
	case <-time.After(within):
		t.Fatalf("a waiter was not granted within %v", within)
		panic("unreachable")
	}
}

// Lost waits for the loss of a lease. It fails the test after within.
func Lost(t testing.TB, l backend.Lease, within time.Duration) {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(within):
		t.Fatalf("Lost is not closed within %v", within)
	}
}
