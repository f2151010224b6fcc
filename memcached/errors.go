package memcached

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// ErrOutOfMemory means that the server has no room for an item. Either it is full and runs with -M, which forbids
// eviction, or its memory is assigned to items of other sizes. Nothing was changed. A renewal and a release also need
// room briefly.
var ErrOutOfMemory = errors.New("memcached is out of memory")

var (
	errNoAnswer  = errors.New("no answer from memcached in time")
	errBusy      = errors.New("no free connection to memcached in time")
	errNoCAS     = fmt.Errorf("%w: the server runs without compare-and-swap (-C)", backend.ErrUnsupported)
	errContended = errors.New("the item changed after each of several reads")
)

// explain turns the library's errors that have no type into this package's errors.
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

// unavailable wraps err, which is not a reply of the server, in backend.ErrUnavailable, unless err is definite.
func unavailable(err error) error {
	if kit.Definite(err) || errors.Is(err, backend.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}

// isServerError reports whether err contains a reply that the library does not know.
func isServerError(err error) bool {
	s := err.Error()
	return strings.Contains(s, "SERVER_ERROR") || strings.Contains(s, "memcache: client error") ||
		strings.Contains(s, "memcache: unexpected response line") && strings.Contains(s, "ERROR")
}

// isAnswer reports whether err results from a reply of the server, so that the outcome is known.
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

// broken reports whether a connection cannot be used after err. The same operation may succeed on a new one.
func broken(err error) bool {
	return err != nil && !isAnswer(err) && !kit.Definite(err) && !errors.Is(err, errBusy)
}
