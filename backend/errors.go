package backend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The errors that callers act on. Match them with errors.Is.
var (
	// ErrHeld means that another owner holds the key. Nothing was changed. Together with a context's error it means only that the
	// store had said so before the context ended.
	ErrHeld = errors.New("held by another owner")
	// ErrLost means that the lease has ended: it expired, the store dropped it, or it was released before.
	ErrLost = errors.New("lease lost")
	// ErrClosed means that the backend or locker has been closed.
	ErrClosed = errors.New("closed")
	// ErrUnsupported means that this store cannot do what was asked. It matches errors.ErrUnsupported too.
	ErrUnsupported error = unsupported{}
	// ErrInvalid means that an argument or URL was refused before any request.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable means that the store could not be reached, or did not answer within a limit of its own. The key may be
	// busy or free. It never stands for the end of the caller's context.
	ErrUnavailable = errors.New("store unavailable")
)

type unsupported struct{}

func (unsupported) Error() string        { return "not supported by this store" }
func (unsupported) Is(target error) bool { return target == errors.ErrUnsupported }

// A HeldError matches ErrHeld and says who holds the key.
type HeldError struct {
	Holder Holder
}

func (e *HeldError) Error() string {
	if !e.Holder.Held() {
		return ErrHeld.Error()
	}
	s := "held by " + printable(e.Holder.Owner)
	if e.Holder.TTL > 0 {
		s += fmt.Sprintf(" for up to %v more", e.Holder.TTL)
	}
	return s
}

// Printable returns s with each character that is not printable, such as a newline, escaped as in Go.
func Printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(unquoted(strconv.QuoteRune(r)))
		}
	}
	return b.String()
}

// printable is s as it may stand in a line of a log: quoted if it holds anything but printable characters.
func printable(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

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
	if errors.Is(last, ErrHeld) && errors.Is(last, err) {
		return last // which this has made before
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		if isOurs(cause) {
			err = fmt.Errorf("%w: %v", err, cause)
		} else {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	if last != nil && !IsContextError(last) {
		err = fmt.Errorf("%w (last error: %w)", err, last)
	}
	return err
}

// Ended reports whether ctx has ended. A context whose deadline has passed has ended, even if its timer has not fired yet: a
// connection with the same deadline often notices first, and its "i/o timeout" would be mistaken for a network error.
func Ended(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(d) <= 0
}

// IsContextError reports whether err says that a context has ended, perhaps not the caller's.
func IsContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// NotOurs returns err as the caller that passed ctx may see it: the end of another context, which is a time limit of the store
// itself, becomes ErrUnavailable.
func NotOurs(ctx context.Context, err error) error {
	if err == nil || !IsContextError(err) || Ended(ctx) {
		return err
	}
	return fmt.Errorf("%w: %v", ErrUnavailable, err)
}

func isOurs(err error) bool {
	for _, e := range []error{ErrHeld, ErrLost, ErrClosed, ErrUnsupported, ErrInvalid, ErrUnavailable} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
