package main

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// sameStore reports whether two URLs lead to the same store and prefix. A pair of them would wait for itself. sameStore
// acquires a key at old, and then at next.
func sameStore(ctx context.Context, old, next *switchStore) (bool, error) {
	acquire := func(s *switchStore) (backend.Lease, error) {
		l, err := s.Backend.Acquire(ctx, backend.Request{Key: s.Prefix + old.key, Owner: backend.NewOwner(),
			TTL: 10 * time.Second})
		return l, driver.CleanError(s.url, err)
	}
	first, err := acquire(old)
	if err != nil {
		return false, err
	}
	second, err := acquire(next)
	if err == nil {
		err = driver.CleanError(next.url, second.Release(ctx))
	}
	same := errors.Is(err, backend.ErrHeld)
	if same {
		err = nil
	}
	return same, errors.Join(err, driver.CleanError(old.url, first.Release(ctx)))
}
