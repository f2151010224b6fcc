package postgres

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// ErrExhausted means that nothing was granted because a limit is reached: Options.MaxLeases, the server's
// max_connections, or the size of the server's shared lock table (max_locks_per_transaction × max_connections). It
// matches backend.ErrUnavailable.
var ErrExhausted = fmt.Errorf("%w: no room for another lease", backend.ErrUnavailable)

// SQLSTATEs, from appendix A of PostgreSQL's manual.
const (
	codeOutOfMemory    = "53200" // "out of shared memory": the lock table is full
	codeTooMany        = "53300" // too_many_connections
	classNotSupported  = "0A"
	classWrong         = "42" // undefined functions, tables, settings
	classTransaction   = "25" // invalid transaction state
	classConnection    = "08"
	classResources     = "53"
	classIntervention  = "57P"
	codeUnknownSetting = "22023"
)

var errBroken = errors.New("the connection is broken")

func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// isUnsupported reports whether err means that the server does not support a feature at all.
func isUnsupported(err error) bool {
	c := code(err)
	return c == codeUnknownSetting ||
		strings.HasPrefix(c, classNotSupported) || strings.HasPrefix(c, classWrong) || strings.HasPrefix(c, classTransaction)
}

// unavailable returns err in the form that callers see. The result matches ErrUnavailable if the server was not reached
// or did not reply.
func unavailable(err error) error {
	c := code(err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case errors.Is(err, backend.ErrLost), errors.Is(err, backend.ErrClosed), errors.Is(err, backend.ErrUnavailable):
		return err
	case c == codeOutOfMemory, c == codeTooMany:
		if kit.IsContextError(err) { // one host was full, and another one timed out
			return fmt.Errorf("%w: %v", ErrExhausted, err)
		}
		return fmt.Errorf("%w: %w", ErrExhausted, err)
	case strings.HasPrefix(c, classConnection), strings.HasPrefix(c, classResources),
		strings.HasPrefix(c, classIntervention), errors.Is(err, errUnanswered), errors.Is(err, errBroken),
		connecting && c == "":
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return err
}

// neverHeld reports whether err proves that a request on an ended session left no lock behind. Either the request was
// not sent, or the session ended and its locks with it. pgx reports every failed read as safe to retry, which is wrong
// for a read that only timed out.
func neverHeld(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, errBroken) || endedByServer(err)
}

// endedByServer reports whether err is the server's message that it has ended the session.
func endedByServer(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC")
}
