package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/recipe"
)

// acquire acquires the key. It waits for a held key unless -n is set or the standard input of hold has ended.
func (r *runner) acquire(ctx context.Context, locks *lock.Locker) (*lock.Lease, error) {
	outside, err := r.heldOutside(ctx, locks)
	if err != nil {
		return nil, storeError(err)
	}
	if outside && !r.shared {
		return nil, r.endlessWait()
	}
	var lease *lock.Lease
	keys, err := r.acquirer(locks)
	if err != nil {
		return nil, usagef("%w", err)
	}
	if outside || r.nonblock || r.inputHasEnded() {
		lease, err = keys.TryAcquire(ctx, r.mode()...)
		if outside && errors.Is(err, lock.ErrHeld) { // by a writer, or one waits for the reader around us
			err = r.endlessWait()
		}
	} else if lease, err = r.await(ctx, locks, keys); err != nil && !errors.Is(err, lock.ErrHeld) && r.inputHasEnded() {
		// The end of the input may have cut the first request short. hold still acquires a free key: the second request waits
		// up to a second for the cleanup of the first.
		lease, err = keys.Acquire(ctx, append(r.mode(), lock.WithWait(time.Second))...)
	}
	return lease, r.refusal(ctx, locks, err)
}

// await acquires the key. It waits for a held key until -w has passed, until the wait turns out to be endless or, for
// hold, until standard input ends.
func (r *runner) await(ctx context.Context, locks *lock.Locker, keys acquirer) (*lock.Lease, error) {
	defer r.reportWaiting(ctx, locks.Ops())()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.inputEnded != nil { // only hold sets inputEnded
		go func() {
			select {
			case <-r.inputEnded:
				cancel(nil)
			case <-ctx.Done():
			}
		}()
	}
	if len(heldOwners()) > 0 {
		// The store names only one of several readers. While we wait, no reader comes in, so that in the end it names the
		// reader around us.
		defer repeat(waitNotice, func(ctx context.Context) {
			if endless, err := r.heldOutside(ctx, locks); endless && err == nil {
				cancel(r.endlessWait())
			}
		})()
	}
	lease, err := r.awaitFor(ctx, keys)
	if endless := (*exitError)(nil); err != nil && errors.As(context.Cause(ctx), &endless) {
		return nil, endless
	}
	return lease, err
}

// awaitFor acquires the key. It waits until -w has passed.
func (r *runner) awaitFor(ctx context.Context, keys acquirer) (*lock.Lease, error) {
	left := max(0, r.wait.d-time.Since(r.began))
	switch {
	case !r.wait.isSet:
		return keys.Acquire(ctx, r.mode()...)
	case r.permits == 0:
		return keys.Acquire(ctx, append(r.mode(), lock.WithWait(left))...)
	}
	// lock.WithWait would limit the wait in the semaphore's queue, and then again the wait at its front.
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	lease, err := keys.Acquire(limited)
	if err == nil || errors.Is(err, lock.ErrHeld) || limited.Err() == nil || ctx.Err() != nil {
		return lease, err
	}
	// The limit may have passed between two requests of the semaphore, so that err does not tell whether it is busy.
	last, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return keys.TryAcquire(last)
}

// An acquirer acquires the lock KEY, or one permit of the semaphore KEY.
type acquirer interface {
	Acquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error)
	TryAcquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error)
}

func (r *runner) acquirer(locks *lock.Locker) (acquirer, error) {
	if r.permits > 0 {
		return recipe.NewSemaphore(locks, r.key, r.permits)
	}
	return oneKey{locks, r.key}, nil
}

// oneKey implements acquirer for a lock.
type oneKey struct {
	locks *lock.Locker
	key   string
}

func (k oneKey) Acquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error) {
	return k.locks.Acquire(ctx, k.key, opts...)
}

func (k oneKey) TryAcquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error) {
	return k.locks.TryAcquire(ctx, k.key, opts...)
}

// mode returns lock.Shared with --shared, and no option otherwise.
func (r *runner) mode() []lock.AcquireOption {
	if r.shared {
		return []lock.AcquireOption{lock.Shared()}
	}
	return nil
}

// inputHasEnded reports whether the standard input of hold has ended.
func (r *runner) inputHasEnded() bool {
	select {
	case <-r.inputEnded:
		return true
	default:
		return false
	}
}

// refusal returns the exit error for a lease that was not granted because of err.
func (r *runner) refusal(ctx context.Context, locks *lock.Locker, err error) error {
	switch held, exit := (*lock.HeldError)(nil), (*exitError)(nil); {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return err
	case errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, lock.ErrHeld):
		return storeError(err)
	case r.quiet:
		return exitWith(int(r.conflictExit))
	case r.inputHasEnded() && !r.nonblock:
		return &exitError{code: int(r.conflictExit), err: fmt.Errorf("%s was still held when standard input ended",
			show(r.key))}
	case errors.Is(err, recipe.ErrLimit):
		return &exitError{code: int(r.conflictExit), err: fmt.Errorf("%s: %w", show(r.key), recipe.ErrLimit)}
	case errors.As(err, &held):
		return r.conflict(held.Holder)
	}
	holder, _ := inspect(ctx, locks.Ops(), r.key) // err does not name the holder; needed for the message only
	return r.conflict(holder)
}

// heldOutside reports whether enclosing anylock runs hold the key, or all its permits: then a wait would never end. Of
// several readers it sees only the one whose lease ends last. An owner is unique across all stores, so it identifies
// the lease even if the URL or the prefix of the key differs.
func (r *runner) heldOutside(ctx context.Context, locks *lock.Locker) (bool, error) {
	owners, keys := heldOwners(), max(1, r.permits)
	if len(owners) < keys {
		return false, nil
	}
	for i := range keys {
		key := r.key
		if r.permits > 0 {
			key += permitPart + strconv.Itoa(i)
		}
		if h, err := locks.Ops().Inspect(ctx, key); err != nil || !ownedBy(h.Owner, owners) {
			return false, err
		}
	}
	return true, nil
}

// ownedBy reports whether owner is one of owners. A pair may have appended # and a number for one of its stores.
func ownedBy(owner string, owners []string) bool {
	return slices.ContainsFunc(owners, func(o string) bool { return owner == o || strings.HasPrefix(owner, o+"#") })
}

// permitPart is what follows KEY in the key of a permit, before the permit's number: see recipe.Semaphore.
const permitPart = "/permit/"

// keyOf returns the key of the lease, of a permit too, as every command takes it: without the prefix of the URL.
func (r *runner) keyOf(l *lock.Lease) string {
	if r.permits == 0 {
		return r.key
	}
	return r.key + l.Key()[strings.LastIndex(l.Key(), permitPart):]
}

// endlessWait returns the exit error for a key that heldOutside has found.
func (r *runner) endlessWait() error {
	if r.quiet {
		return exitWith(int(r.conflictExit))
	}
	return &exitError{code: int(r.conflictExit), err: fmt.Errorf(
		"%s is held by an anylock run around this command: waiting for it would never end", show(r.key))}
}

func (r *runner) conflict(h lock.Holder) error {
	err := error(nil)
	by := holderText(h)
	if r.permits > 0 {
		by = fmt.Sprintf("%d holders, one of them %s", r.permits, by)
	}
	switch after := shortDuration(r.wait.d); {
	case !h.Held() && r.nonblock:
		err = fmt.Errorf("%s is held by somebody else", show(r.key))
	case !h.Held():
		err = fmt.Errorf("%s was held for %s by others", show(r.key), after)
	case r.nonblock:
		err = fmt.Errorf("%s is held by %s", show(r.key), by)
	default:
		err = fmt.Errorf("%s is still held after %s by %s", show(r.key), after, by)
	}
	return &exitError{code: int(r.conflictExit), err: err}
}
