package recipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock"
)

// Lead lets one of all candidates for key lead at a time. It waits until it holds key, calls f, and gets in line again when f has
// returned, until ctx ends. f's context is that of its lease: it ends when leadership is lost, at the lease's deadline at the latest, and
// f should then return. lease.Token is the fencing token of this term. A process that is paused does not notice a loss, so f should send
// the token along with what it writes.
//
// How f returns decides what comes next:
//
//   - After a loss Lead gets in line again at once. An error of f is dropped, because work that is cut short fails in many ways.
//   - If f returns nil while it leads, it steps down: the key is released for the next candidate, and Lead gets in line again after
//     about a second.
//   - If f returns an error while it leads, the key is released, and Lead returns that error.
//
// Lead never returns nil. When ctx has ended, it waits for f and returns f's error, or the context's if f returned nil. If a campaign fails
// because the store does not answer, or because WithWait has passed, Lead tries again after about a second; a Tracer of the Locker is told
// each time. ErrClosed, ErrInvalid, ErrUnsupported and ErrDeadlock end Lead.
//
// locks.Inspect(ctx, key) returns who leads: its Owner is that of the leader's lease and names the host and the process. WithTTL limits how
// long the others take to replace a leader that has died. WithMaxHold limits each term.
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
