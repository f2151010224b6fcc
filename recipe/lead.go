package recipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock"
)

// Lead lets one of all candidates for key lead at a time. It waits until it holds key, calls f, and waits again when f has
// returned, until ctx ends. f's context is that of its lease: it ends when leadership is lost, at the lease's deadline at the latest,
// and f should then return. lease.Token is the fencing token of this term. To write safely even if the process was paused
// beyond the deadline, send the token along.
//
// How f returns decides what comes next:
//
//   - After a loss, whatever f returned, Lead gets in line again at once. The error of f is dropped, because work that is
//     cut short fails in many ways.
//   - If f returns nil while it leads, it steps down: the key is released, the next candidate leads, and Lead gets in line again after about a
//     second.
//   - If f returns an error while it leads, the key is released, and Lead returns that error.
//
// Lead never returns nil. When ctx has ended, it waits for f and returns f's error, or the context's if f returned nil. A campaign that
// fails because the store does not answer, or because WithWait has passed, is repeated after about a second. A Tracer of the Locker sees each.
// Other errors end Lead: ErrClosed, ErrInvalid, ErrUnsupported and ErrDeadlock.
//
// locks.Inspect(ctx, key) tells who leads: the Holder's Owner names the host and the process, and is the Owner of the leader's lease.
// WithTTL is how long it takes at most until the others notice that a leader has died. WithMaxHold limits each term.
func Lead(ctx context.Context, locks *lock.Locker, key string, f func(ctx context.Context, lease *lock.Lease) error,
	opts ...lock.AcquireOption) error {
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
		if err := aside(ctx); err != nil {
			return err
		}
	}
}

// term calls f while the key is held, and reports whether the lease was lost before f returned.
func term(ctx context.Context, lease *lock.Lease, f func(context.Context, *lock.Lease) error) (lost bool, err error) {
	defer lease.Release(ctx) // if the outcome is unknown, the TTL ends it
	err = f(lease.Context(), lease)
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

// aside waits for about a second, so that others get the key, or a store recovers.
func aside(ctx context.Context) error {
	const least, most = 500 * time.Millisecond, 1500 * time.Millisecond
	t := time.NewTimer(least + rand.N(most-least))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
