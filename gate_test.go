package lock_test

import (
	"errors"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// The Locker keeps the gate that was left last, and no other empty gate. The kept gate still admits one goroutine at a
// time.
func TestGateLeftLast(t *testing.T) {
	l, err := lock.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	take := func(key string) *lock.Lease {
		t.Helper()
		lease, err := l.TryAcquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	check := func(held ...string) {
		t.Helper()
		for _, key := range held {
			if _, err := l.TryAcquire(t.Context(), key); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("%q: %v, want held", key, err)
			}
		}
		if gates, _ := l.Kept(); gates != len(held) {
			t.Errorf("%d gates, want %d", gates, len(held))
		}
	}
	for range 2 {
		a := take("a")
		check("a")
		a.Release(t.Context())
		check()
		a = take("a") // through the kept gate
		check("a")
		b := take("b")
		check("a", "b")
		a.Release(t.Context())
		b.Release(t.Context()) // only b's gate is kept
		check()
		if err := a.Release(t.Context()); err != nil { // again, after its gate was deleted
			t.Error(err)
		}
		b = take("b")
		a = take("a")
		check("a", "b")
		if err := errors.Join(a.Release(t.Context()), b.Release(t.Context())); err != nil {
			t.Error(err)
		}
	}
}
