package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/anylock/lock"
)

// A signalError is a signal that came while there was no command yet to pass it to.
type signalError struct{ sig os.Signal }

func (e *signalError) Error() string { return e.sig.String() }

// exit is the exit that a shell would report for a command that the signal ended.
func (e *signalError) exit() error {
	code := exitSignal
	if n, ok := e.sig.(syscall.Signal); ok {
		code += int(n)
	}
	return exitWith(code)
}

// untilSignal returns a context that ends with a *signalError as its cause when one of signalsEnding comes. stop ends the
// watch and leaves further signals in the channel; the context lives on.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func() *signalError) {
	ctx, cancel := context.WithCancelCause(ctx)
	quit, done := make(chan struct{}), make(chan *signalError, 1)
	go func() {
		for {
			select {
			case sig := <-signals:
				if !ending(sig) {
					continue
				}
				err := &signalError{sig}
				cancel(err)
				done <- err
			case <-quit:
				done <- nil
			}
			return
		}
	}()
	return ctx, func() *signalError {
		close(quit)
		return <-done
	}
}

func ending(sig os.Signal) bool { return slices.Contains(signalsEnding, sig) }

// acquire takes the key, and waits for it if it may. began is when the user's patience began.
func (r *runner) acquire(ctx context.Context, locks *lock.Locker, began time.Time) (*lock.Lease, error) {
	if err := r.heldOutside(ctx, locks); err != nil {
		return nil, err
	}
	if r.nonblock {
		lease, err := locks.TryAcquire(ctx, r.key)
		return lease, r.refusal(ctx, locks, err)
	}
	stop := r.tellWaiting(ctx, locks)
	defer stop()
	var limit []lock.AcquireOption
	if r.wait.isSet {
		limit = append(limit, lock.WithWait(max(0, r.wait.d-time.Since(began))))
	}
	lease, err := locks.Acquire(ctx, r.key, limit...)
	return lease, r.refusal(ctx, locks, err)
}

// refusal is the exit for a lease that was not granted.
func (r *runner) refusal(ctx context.Context, locks *lock.Locker, err error) error {
	switch held := (*lock.HeldError)(nil); {
	case err == nil:
		return nil
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
	if r.app.getenv(keyVariable) != r.key {
		return nil
	}
	h, err := locks.Inspect(ctx, r.key)
	if err != nil {
		return storeError(err)
	}
	if h.Held() && h.Owner == r.app.getenv(ownerVariable) {
		return &exitError{code: r.conflictCode(), err: fmt.Errorf(
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
	return &exitError{code: r.conflictCode(), err: err}
}
