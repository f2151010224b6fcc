package locktests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// When a wait for a busy key ends, the stores memory and file report that the key is busy.
func TestWaitOnBusyKey(t *testing.T) {
	t.Parallel()
	shared, url := memory.NewStore(), "file://"+t.TempDir()
	for name, client := range map[string]func() (*lock.Locker, error){
		"memory": func() (*lock.Locker, error) { return lock.New(shared.Client()) },
		"file":   func() (*lock.Locker, error) { return lock.Open(t.Context(), url) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := opened(t, client), opened(t, client)
			lease, err := a.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			_, err = answered(func(wait time.Duration) (*lock.Lease,
				error) {
				return b.Acquire(t.Context(), "k", lock.WithWait(wait))
			})
			if !errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WithWait: %v, want ErrHeld alone", err)
			}
			if held := (*lock.HeldError)(nil); !errors.As(err, &held) || held.Holder.Owner != lease.Owner() {
				t.Errorf("%v does not name the holder", err)
			}
			_, err = answered(func(wait time.Duration) (*lock.Lease, error) {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				return b.Acquire(ctx, "k")
			})
			if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("deadline: %v, want ErrHeld and the context's error", err)
			}
			release(t, lease)
		})
	}
}

func opened(t *testing.T, open func() (*lock.Locker, error)) *lock.Locker {
	t.Helper()
	l, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// answered calls acquire with ever longer waits until the error matches ErrHeld, because the machine may stall.
func answered(acquire func(wait time.Duration) (*lock.Lease, error)) (*lock.Lease, error) {
	for wait := 50 * time.Millisecond; ; wait *= 10 {
		if l, err := acquire(wait); errors.Is(err, lock.ErrHeld) || wait > time.Second {
			return l, err
		}
	}
}
