package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock"
)

// acquire takes the key, and waits for it if it may.
func (r *runner) acquire(ctx context.Context, locks *lock.Locker) (*lock.Lease, error) {
	if err := r.heldOutside(ctx, locks); err != nil {
		return nil, err
	}
	var lease *lock.Lease
	var err error
	if r.nonblock || r.inputIsOver() {
		lease, err = locks.TryAcquire(ctx, r.key)
	} else if lease, err = r.await(ctx, locks); err != nil && !errors.Is(err, lock.ErrHeld) && r.inputIsOver() {
		// The first request may have been cut short, and is cleaned up. hold takes a free key even so.
		lease, err = locks.Acquire(ctx, r.key, lock.WithWait(time.Second))
	}
	return lease, r.refusal(ctx, locks, err)
}

// await takes the key, and waits for it until the time of -w, or while somebody is there for whom to wait.
func (r *runner) await(ctx context.Context, locks *lock.Locker) (*lock.Lease, error) {
	defer r.tellWaiting(ctx, locks.Ops())()
	if r.inputEnded != nil { // of hold; the lease of run has the context of its wait
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-r.inputEnded:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	var limit []lock.AcquireOption
	if r.wait.isSet {
		limit = append(limit, lock.WithWait(max(0, r.wait.d-time.Since(r.began))))
	}
	return locks.Acquire(ctx, r.key, limit...)
}

// inputIsOver tells whether the program that waits for hold has closed its end.
func (r *runner) inputIsOver() bool {
	select {
	case <-r.inputEnded:
		return true
	default:
		return false
	}
}

// refusal is the exit for a lease that was not granted.
func (r *runner) refusal(ctx context.Context, locks *lock.Locker, err error) error {
	switch held := (*lock.HeldError)(nil); {
	case err == nil:
		return nil
	case errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, lock.ErrHeld):
		return storeError(err)
	case r.inputIsOver() && !r.nonblock:
		return &exitError{code: int(r.conflictExit), err: fmt.Errorf("%s was still held when standard input ended", show(r.key))}
	case errors.As(err, &held):
		return r.conflict(held.Holder)
	}
	holder, _ := inspect(ctx, locks.Ops(), r.key) // the store has not told; for the message only
	return r.conflict(holder)
}

// heldOutside returns an error if the key is held by an anylock run around this process, because waiting would never end.
// An owner is unique in all stores, so that the owner identifies the lease, also if the URL or the prefix of the key
// differs.
func (r *runner) heldOutside(ctx context.Context, locks *lock.Locker) error {
	owners := heldOwners()
	if len(owners) == 0 {
		return nil
	}
	h, err := locks.Ops().Inspect(ctx, r.key)
	if err != nil {
		return storeError(err)
	}
	if h.Held() && slices.Contains(owners, h.Owner) {
		return &exitError{code: int(r.conflictExit), err: fmt.Errorf(
			"%s is held by an anylock run around this command: waiting for it would never end", show(r.key))}
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
