package memcached

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// ErrOutOfMemory means that the server has no room for an item: it is full and was told not to evict (-M), or its memory is
// bound to items of other sizes. Nothing was changed. A renewal and a release need room for a moment, too.
var ErrOutOfMemory = errors.New("memcached is out of memory")

var (
	errNoAnswer  = errors.New("no answer from memcached in time")
	errBusy      = errors.New("no free connection to memcached in time")
	errNoCAS     = fmt.Errorf("%w: the server runs without compare-and-swap (-C)", backend.ErrUnsupported)
	errContended = errors.New("the item changes all the time")
)

// A laterError is of a request that was not the first of its step: what the earlier ones did has been done.
type laterError struct{ error }

func (e laterError) Unwrap() error { return e.error }

// A readError is of a step that has only read so far.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// A dialError is of a connection that could not be made.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// checkCAS refuses an item of a server that would swap without comparing.
func checkCAS(item *memcache.Item) error {
	if item.CasID == 0 {
		return errNoCAS
	}
	return nil
}

// explain turns errors that the library only describes into ours.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case isServerError(err) && strings.Contains(err.Error(), "out of memory"):
		return fmt.Errorf("%w (%w)", ErrOutOfMemory, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return err
}

// unavailable makes err, which is no answer of the server, match backend.ErrUnavailable unless it is definite.
func unavailable(err error) error {
	if backend.Definite(err) || errors.Is(err, backend.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}

// isServerError reports whether err is an answer of the server that the library does not know.
func isServerError(err error) bool {
	s := err.Error()
	return strings.Contains(s, "SERVER_ERROR") || strings.Contains(s, "memcache: client error") ||
		strings.Contains(s, "memcache: unexpected response line") && strings.Contains(s, "ERROR")
}

// isAnswer reports whether err is what the server answered, so that the outcome is known.
func isAnswer(err error) bool {
	for _, answer := range []error{
		memcache.ErrCacheMiss, memcache.ErrCASConflict, memcache.ErrNotStored, memcache.ErrMalformedKey,
		backend.ErrLost, backend.ErrHeld, errForeign, errContended, errNoStats,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return isServerError(err)
}

// unreached reports whether a step has ended with err before there was a connection for its first request.
func unreached(err error) bool {
	var dial dialError
	var later laterError
	return !errors.As(err, &later) && (errors.As(err, &dial) || errors.Is(err, errBusy) || backend.Definite(err))
}

// harmless reports whether a step that has ended with err, without an answer, has certainly changed nothing.
func harmless(err error) bool {
	var read readError
	return unreached(err) || errors.As(err, &read)
}

// broken reports whether a connection is of no use after err. The same step may succeed on a new one.
func broken(err error) bool {
	return err != nil && !isAnswer(err) && !backend.Definite(err) && !errors.Is(err, errBusy)
}
