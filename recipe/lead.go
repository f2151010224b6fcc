package recipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock"
)

// Lead lets one of all candidates for key lead at a time. Until ctx ends, it waits until it holds key, calls f, and
// queues again when f returns. f's context is that of its lease: it ends when leadership is lost, at the lease's
// deadline at the latest, and f should then return. lease.Token is the fencing token of this term. A process that is
// paused does not notice a loss, so f should send the token with each write.
//
// What happens next depends on how f returns:
//
//   - After a loss, Lead queues again at once. It ignores f's error, because interrupted work fails in many ways.
//   - If f returns nil while it leads, it steps down: the key is released for the next candidate, and Lead queues again
//     after about a second.
//   - If f returns an error while it leads, the key is released, and Lead returns that error.
//
// Lead never returns nil. When ctx has ended, it waits for f and returns f's error, or the context's if f returned nil.
// If a campaign fails because the store does not respond or the wait exceeds WithWait, Lead tries again after about a
// second; a Tracer of the Locker is called each time. ErrClosed, ErrInvalid, ErrUnsupported and ErrDeadlock end Lead.
//
// locks.Ops().Inspect(ctx, key) returns the leader: Holder.Label names its host and process, or the address that it has
// given to WithOwnerLabel. WithTTL limits how long it takes to replace a leader that has died. WithMaxHold limits each
// term.
func Lead(ctx context.Context, locks *lock.Locker, key string, f func(ctx context.Context, lease *lock.Lease) error,
	opts ...lock.AcquireOption) error {
	opts = append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner())
	for {
		lease, err := locks.Acquire(ctx, key, opts...)
		if err == nil {
			var lost bool
			lost, err = term(ctx, lease, f)
			switch {
			case ctx.Err() != nil && err == nil:
				return ctx.Err()
			case ctx.Err() == nil && lost:
				continue
			case err != nil:
				return err
			}
		} else if ctx.Err() != nil || isFinal(err) {
			return err
		}
		if err := backOff(ctx); err != nil {
			return err
		}
	}
}

// term calls f while the key is held, and reports whether the lease was lost before f returned.
func term(ctx context.Context, lease *lock.Lease, f func(context.Context, *lock.Lease) error) (lost bool, err error) {
	defer lease.Release(ctx) // if the outcome is unknown, the lease ends with its TTL
	err = f(lease.Context(ctx), lease)
	return errors.Is(lease.Err(), lock.ErrLost), err
}

// isFinal reports whether the same campaign would fail again.
func isFinal(err error) bool {
	for _, final := range []error{lock.ErrClosed, lock.ErrInvalid, lock.ErrUnsupported, lock.ErrDeadlock} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// backOff waits for about a second, so that other candidates get the key, or the store recovers.
func backOff(ctx context.Context) error {
	const shortest, longest = 500 * time.Millisecond, 1500 * time.Millisecond
	t := time.NewTimer(shortest + rand.N(longest-shortest))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
