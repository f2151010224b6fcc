package postgres

import (
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
)

// ErrExhausted means that nothing was granted because a limit is reached: Options.MaxConns, Options.MaxLeases, or the
// server's shared lock table, which is max_locks_per_transaction × max_connections in size.
var ErrExhausted = errors.New("postgres: no room for another lease")

// SQLSTATEs, from appendix A of PostgreSQL's manual.
const (
	codeOutOfMemory   = "53200" // "out of shared memory": the lock table is full
	codeUndefinedName = "42704" // unrecognized configuration parameter
)

var errBroken = errors.New("the connection is broken")

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// translate gives errors that mean something of ours their name.
func translate(err error) error {
	if code(err) == codeOutOfMemory {
		return fmt.Errorf("%w: %w", ErrExhausted, err)
	}
	return err
}

// neverHeld reports whether err says that a request on a session which has ended left nothing behind: it was not sent, or
// the session ended, and with it the locks. pgx says so of all reads that fail; where only the time is over it is not true.
func neverHeld(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, errBroken) || endedByServer(err)
}

// endedByServer reports whether err is the server's word that it has ended the session.
func endedByServer(err error) bool {
	if err == nil {
		return false
	}
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

// refused is for servers and poolers that cannot do it.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", backend.ErrUnsupported, fmt.Sprintf(format, args...))
}
