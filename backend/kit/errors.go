package kit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// ContextError returns the error of an ended context, joined with its cause if that says more, and with last, the last
// error seen before the context ended, if there was one. It matches ctx.Err(). It is nil while ctx lives. A cause that
// matches an error of this package is about another lock, as with errgroup: the result shows it but does not match it.
func ContextError(ctx context.Context, last error) error {
	if !Ended(ctx) {
		return nil
	}
	return endError(ctx, last)
}

// endError is ContextError of a context that has ended.
func endError(ctx context.Context, last error) error {
	err := ctx.Err()
	if err == nil {
		err = context.DeadlineExceeded
	}
	_, joined := errors.AsType[joinedError](last)
	if (joined || errors.Is(last, backend.ErrHeld)) && errors.Is(last, err) {
		return last // an earlier result of this function
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		if isOurs(cause) {
			err = fmt.Errorf("%w: %v", err, cause)
		} else {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	if last != nil && !IsContextError(last) {
		err = joinedError{fmt.Errorf("%w (last error: %w)", err, last)}
	}
	return err
}

// A joinedError is the error of a context that has ended, joined with the last error before.
type joinedError struct{ error }

// Unwrap returns the context's error and the last error.
func (e joinedError) Unwrap() []error { return e.error.(interface{ Unwrap() []error }).Unwrap() }

// Ended reports whether ctx has ended. A context whose deadline has passed has ended, even if its timer has not fired
// yet: a connection with the same deadline often notices first, and its "i/o timeout" would be mistaken for a network
// error.
func Ended(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(d) <= 0
}

// IsContextError reports whether err says that a context has ended, perhaps not the caller's.
func IsContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// NotOurs returns err as the caller that passed ctx may see it: the end of another context, which is a time limit of
// the store itself, becomes ErrUnavailable.
func NotOurs(ctx context.Context, err error) error {
	if err == nil || !IsContextError(err) || Ended(ctx) {
		return err
	}
	return fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
}

func isOurs(err error) bool {
	for _, e := range []error{backend.ErrHeld, backend.ErrLost, backend.ErrClosed, backend.ErrUnsupported,
		backend.ErrInvalid, backend.ErrUnavailable} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
