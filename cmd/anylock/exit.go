package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
)

// Exit codes. A command that ran gives its own code, and 128 + N when signal N ended it.
const (
	exitOK            = 0
	exitConflict      = 1   // run: the key is held by another; -E sets another code
	exitWarning       = 1   // doctor: the worst finding is a warning
	exitCritical      = 2   // doctor: the worst finding is critical
	exitFree          = 1   // inspect, break: nobody holds the key, or not that owner
	exitChecksFailed  = 1   // conform: the store breaks a rule
	exitUsage         = 64  // EX_USAGE of sysexits.h, as in flock(1)
	exitUnavailable   = 69  // EX_UNAVAILABLE: the store cannot be reached
	exitNoGuard       = 71  // EX_OSERR, run: the guard process cannot be started
	exitOutput        = 74  // EX_IOERR: what there is to tell cannot be written
	exitLost          = 113 // run: the lock was lost while the command ran; --lost-exit-code sets another code
	exitNotExecutable = 126 // run: as in a shell
	exitNotFound      = 127 // run: as in a shell
	exitSignal        = 128 // run: + the signal's number
)

// An exitError ends the program with a code. Without err it is silent: everything has been said.
type exitError struct {
	code  int
	err   error
	usage bool // the help of the command says more
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exitWith(code int) error { return &exitError{code: code} }

func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...), usage: true}
}

// exactArgs is cobra.ExactArgs with a message that names what is wanted.
func exactArgs(what ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(what):
			return usagef("%s is missing", what[len(args)])
		case len(args) > len(what):
			return usagef("unexpected argument %s", show(args[len(what)]))
		}
		return nil
	}
}

// storeError turns an error of package lock into the exit that it means, other than ErrHeld.
func storeError(err error) error {
	code, cause := exitUnavailable, err
	if errors.Is(err, lock.ErrInvalid) || errors.Is(err, lock.ErrUnsupported) {
		code = exitUsage
	}
	where := ""
	if e := (*lock.Error)(nil); errors.As(err, &e) {
		cause = e.Err
		if e.Backend != "" {
			where = e.Backend + ": "
		}
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = fmt.Errorf("no answer in time: %w", cause)
	}
	return &exitError{code: code, err: fmt.Errorf("%s%w", where, cause)}
}
