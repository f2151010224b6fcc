package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/recipe"
)

// -w limits the whole wait for a permit: in the semaphore's queue and at its front together.
func TestWaitForPermitIsLimitedOnce(t *testing.T) {
	const limit, permits = 10 * time.Second, 2
	for name, leaves := range map[string]time.Duration{
		"in the queue": 2 * limit, "at the front": limit - 100*time.Millisecond, "between the two": limit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				others, ours := semaphoreOn(t, store), semaphoreOn(t, store)
				for range permits {
					lease, err := others.Acquire(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer lease.Release(context.Background()) //nolint:errcheck // it ends with the store
				}
				begun := time.Now()
				first, leave := context.WithTimeout(t.Context(), leaves)
				defer leave()
				left := make(chan error, 1)
				go func() { _, err := others.Acquire(first); left <- err }()
				synctest.Wait()
				r := &runner{permits: permits, began: begun, wait: seconds{d: limit, isSet: true}}
				_, err := r.awaitFor(t.Context(), ours)
				if !errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrUnavailable) {
					t.Errorf("%v, want ErrHeld", err)
				}
				if took := time.Since(begun); took != limit {
					t.Errorf("waited for %v, want %v", took, limit)
				}
				leave()
				<-left
			})
		})
	}
}

func semaphoreOn(t *testing.T, store *memory.Store) *recipe.Semaphore {
	locks, err := lock.New(store.Client())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	s, err := recipe.NewSemaphore(locks, "mail", 2)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
