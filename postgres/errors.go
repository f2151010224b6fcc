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
// max_connections, or the server's shared lock table, which is max_locks_per_transaction × max_connections in size. It
// matches backend.ErrUnavailable.
var ErrExhausted = fmt.Errorf("%w: no room for another lease", backend.ErrUnavailable)

// SQLSTATEs, from appendix A of PostgreSQL's manual.
const (
	codeOutOfMemory    = "53200" // "out of shared memory": the lock table is full
	codeTooMany        = "53300" // too_many_connections
	classNotSupported  = "0A"
	classWrong         = "42" // undefined functions, tables, settings
	classTransaction   = "25" // a transaction is not what it should be
	classConnection    = "08"
	classResources     = "53"
	classIntervention  = "57P"
	codeUnknownSetting = "22023"
)

var errBroken = errors.New("the connection is broken")

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// lacking reports whether err is about something that the server cannot do at all.
func lacking(err error) bool {
	c := code(err)
	return c == codeUnknownSetting ||
		strings.HasPrefix(c, classNotSupported) || strings.HasPrefix(c, classWrong) || strings.HasPrefix(c, classTransaction)
}

// translate gives errors that mean something of ours their name.
func translate(err error) error {
	switch c := code(err); {
	case errors.Is(err, backend.ErrUnavailable):
		return err
	case c == codeOutOfMemory, c == codeTooMany:
		return fmt.Errorf("%w: %w", ErrExhausted, err)
	case strings.HasPrefix(c, classConnection), strings.HasPrefix(c, classResources),
		strings.HasPrefix(c, classIntervention):
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return err
}

// unavailable is err as callers see it: ErrUnavailable if the server could not be asked or did not answer.
func unavailable(err error) error {
	err = translate(err)
	var connecting *pgconn.ConnectError
	silent := errors.Is(err, errUnanswered) || errors.Is(err, errBroken) || errors.As(err, &connecting) && code(err) == ""
	named := errors.Is(err, backend.ErrLost) || errors.Is(err, backend.ErrClosed) || errors.Is(err, backend.ErrUnavailable)
	switch {
	case errors.Is(err, ErrExhausted) && kit.IsContextError(err): // one host was full, and another silent
		return fmt.Errorf("%w: %v", ErrExhausted, err)
	case silent && !named:
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return err
}

// neverHeld reports whether err says that a request on a session which has ended left nothing behind: it was not sent,
// or the session ended, and with it the locks. pgx says so of all reads that fail; where only the time is over it is
// not true.
func neverHeld(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, errBroken) || endedByServer(err)
}

// endedByServer reports whether err is the server's word that it has ended the session.
func endedByServer(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && isFatal(e)
}

// isFatal goes by the field that is not translated, which all servers since 9.6 send, where it is there.
func isFatal(e *pgconn.PgError) bool {
	severity := e.SeverityUnlocalized
	if severity == "" {
		severity = e.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}
