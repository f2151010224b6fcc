package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// shutdown begins a Shutdown. The channel receives its error.
func shutdown(ctx context.Context, l *lock.Locker) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Shutdown(ctx) }()
	return done
}

// acquiring begins an Acquire. The channel receives its error.
func acquiring(l *lock.Locker, key string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := l.Acquire(context.Background(), key)
		done <- err
	}()
	return done
}

func TestShutdownWaitsForHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := lock.New(memory.New(), lock.WithTTL(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		waits := acquiring(l, "k")
		synctest.Wait()
		done := shutdown(t.Context(), l)
		if err := <-waits; !errors.Is(err, lock.ErrClosed) {
			t.Errorf("a waiting Acquire: %v", err)
		}
		if _, err := l.TryAcquire(t.Context(), "other"); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("a new one: %v", err)
		}
		again, err := l.Acquire(lease.Context(t.Context()), "k", lock.Reentrant())
		if err != nil {
			t.Errorf("re-entry: %v", err)
		}
		time.Sleep(time.Minute)
		if err := lease.Err(); err != nil {
			t.Errorf("the lease is not renewed any more: %v", err)
		}
		for _, held := range []*lock.Lease{lease, again} {
			select {
			case err := <-done:
				t.Fatalf("Shutdown ended before the release: %v", err)
			default:
			}
			if err := held.Release(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := l.Shutdown(t.Context()); err != nil {
			t.Errorf("a second one: %v", err)
		}
		if err := l.Ops().Ping(t.Context()); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("Ping afterwards: %v", err)
		}
	})
}

// When its context ends, Shutdown returns the context's error, and the remaining leases end.
func TestShutdownEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := lock.New(memory.New())
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := <-shutdown(ctx, l); !errors.Is(err, context.DeadlineExceeded) || lease.Err() == nil {
			t.Errorf("%v; the lease: %v", err, lease.Err())
		}
		if cause := context.Cause(lease.Context(t.Context())); !errors.Is(cause, lock.ErrClosed) {
			t.Errorf("the lease's context ended for %v", cause)
		}
		if err := <-shutdown(t.Context(), l); err != nil {
			t.Errorf("a second one: %v", err)
		}
	})
}

// If nothing is held, Shutdown returns nil, even if its context has ended before.
func TestShutdownOfIdleLockerWithEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // on failure, chance decides between the two results
		l, err := lock.New(memory.New())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
