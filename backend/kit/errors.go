package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// ContextError returns nil while ctx lives. Then it returns ctx's error, joined with ctx's cause if that is another
// error, and with last, the last error seen before ctx ended, if there was one. The result matches ctx.Err(). A cause
// that matches an error of package backend is about another lock, as with errgroup: the result shows that cause but
// does not match it.
func ContextError(ctx context.Context, last error) error {
	if !Ended(ctx) {
		return nil
	}
	err := cmp.Or(ctx.Err(), context.DeadlineExceeded)
	_, joined := errors.AsType[joinedError](last)
	if (joined || errors.Is(last, backend.ErrHeld)) && errors.Is(last, err) {
		return last // an earlier result of this function
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		if isBackendError(cause) {
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

// A joinedError is the error of an ended context, joined with the last error before.
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

// IsContextError reports whether err means that a context has ended, not necessarily the caller's.
func IsContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// NotOurs converts err for the caller that passed ctx. If another context has ended, which is a time limit of the store
// itself, NotOurs returns ErrUnavailable.
func NotOurs(ctx context.Context, err error) error {
	if err == nil || !IsContextError(err) || Ended(ctx) {
		return err
	}
	return fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
}

func isBackendError(err error) bool {
	return slices.ContainsFunc([]error{backend.ErrHeld, backend.ErrLost, backend.ErrClosed, backend.ErrUnsupported,
		backend.ErrInvalid, backend.ErrUnavailable}, func(e error) bool { return errors.Is(err, e) })
}
