package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// A minimum or maximum hold of 0 means none, even if the Locker has another default.
func TestNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a := locker(t, store.Client(), lock.WithTTL(ttl), lock.WithMinHold(time.Minute), lock.WithMaxHold(time.Hour))
		b := locker(t, store.Client(), lock.WithMinHold(0), lock.WithMaxHold(0))
		release(t, acquire(t, a, "k", lock.WithMinHold(0)))
		free(t, b, "k") // at the very moment of the grant
		for range 2 {
			lease := acquire(t, b, "k")
			release(t, lease)
		}
		lease := acquire(t, a, "k", lock.WithMaxHold(0), lock.WithMinHold(0))
		time.Sleep(3 * time.Hour)
		if lost(lease) {
			t.Error("lost after the maximum hold of the default")
		}
		release(t, lease)
		free(t, b, "k")
		release(t, acquire(t, a, "k"))
		busy(t, b, "k")
	})
}

// A nil option has no effect, wherever options are accepted.
func TestNilOptions(t *testing.T) {
	var (
		option lock.Option
		terms  lock.AcquireOption
	)
	for name, open := range map[string]func() (*lock.Locker, error){
		"New": func() (*lock.Locker, error) { return lock.New(memory.New(), nil, option, terms, lock.WithPrefix("p/")) },
		"Open": func() (*lock.Locker, error) {
			return lock.Open(t.Context(), "memory:", option, lock.WithPrefix("p/"), nil)
		},
		"Config": func() (*lock.Locker, error) {
			return lock.Config{URL: "memory:", Prefix: "p/"}.Open(t.Context(), nil, terms)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			lease := acquire(t, l, "k", nil, terms, lock.WithTTL(time.Minute))
			if left := time.Until(lease.Deadline()); lease.Key() != "p/k" || left <= lock.DefaultTTL {
				t.Errorf("key %q, %v left: the other options have no effect", lease.Key(), left)
			}
			release(t, lease)
			lease, err = l.TryAcquire(t.Context(), "k", nil)
			if err != nil {
				t.Fatal(err)
			}
			release(t, lease)
			if err := l.Do(t.Context(), "k", func(context.Context, *lock.Lease) error { return nil }, terms); err != nil {
				t.Error(err)
			}
		})
	}
}
