package backend

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The errors that callers act on. Match them with errors.Is.
var (
	// ErrHeld means that another owner holds the key. Nothing was changed. If the error also matches a context's error,
	// ErrHeld means only that the store had reported the key as held before the context ended.
	ErrHeld = errors.New("held by another owner")
	// ErrLost means that the lease has ended: it expired, the store dropped it, or it was released before.
	ErrLost = errors.New("lease lost")
	// ErrClosed means that the backend or locker has been closed.
	ErrClosed = errors.New("closed")
	// ErrUnsupported means that this store cannot do what was requested. It also matches errors.ErrUnsupported.
	ErrUnsupported error = unsupported{}
	// ErrInvalid means that an argument or URL was refused before any request.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable means that the store could not be reached, or did not reply within a time limit of its own. The key
	// may be busy or free. ErrUnavailable never stands for the end of the caller's context.
	ErrUnavailable = errors.New("store unavailable")
)

type unsupported struct{}

func (unsupported) Error() string        { return "not supported by this store" }
func (unsupported) Is(target error) bool { return target == errors.ErrUnsupported }

// A HeldError matches ErrHeld and describes the holder of the key.
type HeldError struct {
	Holder Holder
}

func (e *HeldError) Error() string {
	if !e.Holder.Held() {
		return ErrHeld.Error()
	}
	who, rest := printable(e.Holder.Owner), ""
	switch n := e.Holder.Shared; {
	case n == 1:
		who = "reader " + who
	case n > 1:
		who, rest = strconv.Itoa(n)+" readers", ", one of them "+who
	}
	if e.Holder.TTL > 0 {
		who += fmt.Sprintf(" for up to %v more", e.Holder.TTL)
	}
	return "held by " + who + rest
}

// printable returns s as it can appear in a line of a log: quoted if it contains a character that is not printable.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
