package lock

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// The errors that callers act on. Match them with errors.Is.
var (
	// ErrHeld means that another owner holds the key, or is ahead in the queue for it. Use errors.As with *HeldError to
	// get the holder, if the store knows it.
	ErrHeld = backend.ErrHeld
	// ErrLost means that the lease ended without being released: it expired, or the store dropped it.
	ErrLost = backend.ErrLost
	// ErrReleased means that the holder released the lease before it was lost.
	ErrReleased = errors.New("lease released")
	// ErrClosed means that the Locker has been closed.
	ErrClosed = backend.ErrClosed
	// ErrUnsupported means that this store cannot do, or does not promise, what was requested.
	ErrUnsupported = backend.ErrUnsupported
	// ErrInvalid means that an argument or URL was refused before any request, or that a file of the file store is damaged
	// or was not created by that store.
	ErrInvalid = backend.ErrInvalid
	// ErrUnavailable means that the store could not be reached, or did not answer in time. The key may be busy or free.
	ErrUnavailable = backend.ErrUnavailable
	// ErrDeadlock means that the key is already held under the context of the call, so that the call would wait for
	// itself. That is a bug in the program. It does not match ErrHeld, so that code that skips busy keys does not hide
	// the bug.
	ErrDeadlock = errors.New("already held under this context")
)

// A HeldError matches ErrHeld and describes the holder of the key.
type HeldError = backend.HeldError

// refusal returns the part of err that reports a busy key: a *HeldError if err contains one, otherwise ErrHeld. It
// returns nil if err does not report a busy key.
func refusal(err error) error {
	if held, ok := errors.AsType[*HeldError](err); ok {
		return held
	}
	if errors.Is(err, ErrHeld) {
		return ErrHeld
	}
	return nil
}

// isLoss reports whether err means that a lease has ended without a release.
func isLoss(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) }

// A Holder describes who holds a key.
type Holder = backend.Holder

// An Error names the operation that failed, the store and the key. An Error that matches no error of this package and
// no context error comes from the store or the network.
type Error struct {
	// "open", "acquire", "resume", "renew", "release", "inspect", "list", "break", "examine", "ping", "hold", "shutdown",
	// "close"
	Op      string
	Backend string // the store's name, empty if it was not known yet
	Key     string // with the Locker's prefix; empty for operations without a key
	Err     error
}

// Error returns one line: characters of a server or caller that are not printable are escaped as in Go.
func (e *Error) Error() string {
	s := "lock: " + e.Op
	if e.Key != "" {
		const most = 80 // characters of the key
		s += fmt.Sprintf(" %.*q", most, e.Key)
		if utf8.RuneCountInString(e.Key) > most {
			s += "…"
		}
	}
	if e.Backend != "" {
		s += " (" + e.Backend + ")"
	}
	return s + ": " + kit.Printable(e.Err.Error())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
