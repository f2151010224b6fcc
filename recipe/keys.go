package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock"
)

// A Set is a set of leases on several keys, which is exclusive until the earliest of their deadlines. Its methods are
// safe for concurrent use.
type Set struct {
	keys   []string // sorted
	leases []*lock.Lease
}

// AcquireAll waits until it holds all keys, and renews their leases until Release. It acquires each key once, in sorted
// order, so that two calls never wait for each other. It holds the first keys while it waits for the others.
//
// After an error this call holds none of the keys. The error is that of Locker.Acquire for the key that failed, or
// ErrLost if a lease was lost during the wait for another key. If the outcome of a key's release is unknown, the error
// of that release is joined, and the key is free after its TTL at the latest. WithMinHold also applies to the keys of a
// failed call.
//
// WithWait limits the wait for each key. The TTL of each key begins with its own grant: with WithoutRenewal, the first
// lease may expire during the wait for the last key. A caller that already holds a key may still deadlock with callers
// that acquire the keys in another order.
func AcquireAll(ctx context.Context, locks *lock.Locker, keys []string, opts ...lock.AcquireOption) (*Set, error) {
	return collect(ctx, keys, func(ctx context.Context, key string) (*lock.Lease, error) {
		return locks.Acquire(ctx, key, opts...)
	})
}

// TryAcquireAll is like AcquireAll but does not wait. If one of the keys is busy, the error is ErrHeld, with a
// *lock.HeldError that names the holder if the store knows it.
func TryAcquireAll(ctx context.Context, locks *lock.Locker, keys []string, opts ...lock.AcquireOption) (*Set, error) {
	return collect(ctx, keys, func(ctx context.Context, key string) (*lock.Lease, error) {
		return locks.TryAcquire(ctx, key, opts...)
	})
}

// collect acquires all keys or none. It acquires each key under the context of the previous lease: a loss ends the wait
// for the next key.
func collect(
	ctx context.Context, keys []string, acquire func(ctx context.Context, key string) (*lock.Lease, error),
) (*Set, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: no keys", lock.ErrInvalid)
	}
	s := &Set{keys: slices.Compact(slices.Sorted(slices.Values(keys)))}
	under, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, key := range s.keys {
		lease, err := acquire(under, key)
		if err == nil {
			s.leases = append(s.leases, lease)
			under = lease.Context(under)
			err = s.Err()
		} else {
			err = lossOr(err, ctx, under)
		}
		if err != nil {
			for _, lease := range slices.Backward(s.leases) {
				err = withRelease(err, lease.Release(ctx))
			}
			return nil, err
		}
	}
	return s, nil
}

// withRelease joins err, the error of a call, with the error of a release after it, unless that lease was lost.
func withRelease(err, released error) error {
	if released == nil || errors.Is(released, lock.ErrLost) {
		return err
	}
	return errors.Join(err, released)
}

// Lease returns the lease of one of the keys, with its fencing token, and nil for any other key. Release it with the
// others.
func (s *Set) Lease(key string) *lock.Lease {
	if i, found := slices.BinarySearch(s.keys, key); found {
		return s.leases[i]
	}
	return nil
}

// Context returns a child of parent that also ends when one of the leases is lost (the cause matches lock.ErrLost and
// names the key), or when they are released. Acquiring one of the keys again under it is re-entry.
func (s *Set) Context(parent context.Context) context.Context {
	ctx := parent
	for _, lease := range s.leases {
		ctx = lease.Context(ctx)
	}
	return ctx
}

// Deadline returns the time until which all leases are exclusive: the earliest of their deadlines. Renewals move it.
func (s *Set) Deadline() time.Time {
	earliest := s.leases[0].Deadline()
	for _, lease := range s.leases[1:] {
		if d := lease.Deadline(); d.Before(earliest) {
			earliest = d
		}
	}
	return earliest
}

// Err returns nil while all leases are exclusive, by the clock at the moment of the call. Otherwise it returns the
// error of the first lease that is not: lock.ErrLost or lock.ErrReleased.
func (s *Set) Err() error {
	for _, lease := range s.leases {
		if err := lease.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Release releases all keys, the last one first. It tries all of them and works even if ctx has ended. The error is
// lock.ErrLost if a lease had ended before, joined with any other errors: a key named by another error is free by its
// TTL at the latest.
func (s *Set) Release(ctx context.Context) error {
	var errs []error
	for _, lease := range slices.Backward(s.leases) {
		errs = append(errs, lease.Release(ctx))
	}
	return errors.Join(errs...)
}
