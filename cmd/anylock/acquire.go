package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/anylock/lock"
)

// acquire takes the key, and waits for it if it may.
func (r *runner) acquire(ctx context.Context, locks *lock.Locker) (*lock.Lease, error) {
	if err := r.heldOutside(ctx, locks); err != nil {
		return nil, err
	}
	if r.nonblock || r.inputEnded != nil {
		lease, err := locks.TryAcquire(ctx, r.key)
		if r.nonblock || !errors.Is(err, lock.ErrHeld) {
			return lease, r.refusal(ctx, locks, err)
		}
	}
	defer r.tellWaiting(ctx, locks)()
	if r.inputEnded != nil {
		var end context.CancelFunc
		ctx, end = r.untilInputEnds(ctx)
		defer end()
	}
	var limit []lock.AcquireOption
	if r.wait.isSet {
		limit = append(limit, lock.WithWait(max(0, r.wait.d-time.Since(r.began))))
	}
	lease, err := locks.Acquire(ctx, r.key, limit...)
	return lease, r.refusal(ctx, locks, err)
}

var errInputEnded = errors.New("standard input ended")

// untilInputEnds returns a context that ends when nobody is there any more for whom to wait.
func (r *runner) untilInputEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-r.inputEnded:
			cancel(errInputEnded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// refusal is the exit for a lease that was not granted.
func (r *runner) refusal(ctx context.Context, locks *lock.Locker, err error) error {
	switch held := (*lock.HeldError)(nil); {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errInputEnded): // and before the wait the store had said that the key is held
		return &exitError{code: int(r.conflictExit), err: fmt.Errorf("%s was still held when %w", show(r.key), errInputEnded)}
	case errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, lock.ErrHeld):
		return storeError(err)
	case errors.As(err, &held):
		return r.conflict(held.Holder)
	}
	holder, _ := inspect(ctx, locks, r.key) // the store has not told; for the message only
	return r.conflict(holder)
}

// heldOutside tells whether the key is held by the anylock that runs this one, so that waiting would never end.
func (r *runner) heldOutside(ctx context.Context, locks *lock.Locker) error {
	if os.Getenv(keyVariable) != r.key {
		return nil
	}
	h, err := locks.Inspect(ctx, r.key)
	if err != nil {
		return storeError(err)
	}
	if h.Held() && h.Owner == os.Getenv(ownerVariable) {
		return &exitError{code: int(r.conflictExit), err: fmt.Errorf(
			"%s is held by the anylock run that started this command: waiting for it would never end", show(r.key))}
	}
	return nil
}

func (r *runner) conflict(h lock.Holder) error {
	err := error(nil)
	switch after := shortDuration(r.wait.d); {
	case !h.Held() && r.nonblock:
		err = fmt.Errorf("%s is held by somebody else", show(r.key))
	case !h.Held():
		err = fmt.Errorf("%s was held for %s by others", show(r.key), after)
	case r.nonblock:
		err = fmt.Errorf("%s is held by %s", show(r.key), holderText(h))
	default:
		err = fmt.Errorf("%s is still held after %s by %s", show(r.key), after, holderText(h))
	}
	return &exitError{code: int(r.conflictExit), err: err}
}
