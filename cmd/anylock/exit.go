package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
)

// Exit codes. After a command has run, its own code is returned, or 128 + N if signal N ended the command.
const (
	exitOK            = 0
	exitConflict      = 1   // run, hold, acquire: somebody else holds the key; -E sets another code
	exitWarning       = 1   // doctor: the worst finding is a warning
	exitCritical      = 2   // doctor: the worst finding is critical
	exitFree          = 1   // inspect, break, renew, release: the key is free, or another owner holds it
	exitChecksFailed  = 1   // conform, bench: the store failed a check or a scenario
	exitUsage         = 64  // EX_USAGE of sysexits.h, as in flock(1)
	exitUnavailable   = 69  // EX_UNAVAILABLE: the store cannot be reached
	exitSystem        = 71  // EX_OSERR: run cannot start the guard process, or serve cannot listen
	exitOutput        = 74  // EX_IOERR: the output cannot be written
	exitLost          = 113 // run, hold: the lock was lost; --lost-exit-code sets another code
	exitNotExecutable = 126 // run: as in a shell
	exitNotFound      = 127 // run: as in a shell
	exitSignal        = 128 // + the signal's number: a signal ended the command or anylock
)

// An exitError ends the program with a code. Without err the program prints nothing more.
type exitError struct {
	code      int
	err       error
	usage     bool // refer to the help of the command
	interrupt interrupt
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// An interrupt is SIGINT, which the terminal sends after Ctrl-C, as the reason for an exit.
type interrupt int

const (
	noInterrupt      interrupt = iota
	ownInterrupt               // this process got it, and so did the rest of its group
	commandInterrupt           // the terminal sent it to the command's group only, and it ended the command
)

// interruptOf returns the interrupt that err reports.
func interruptOf(err error) interrupt {
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		return exit.interrupt
	}
	return noInterrupt
}

func exitWith(code int) error { return &exitError{code: code} }

func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...), usage: true}
}

// exactArgs is like cobra.ExactArgs, but its message names the missing argument.
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

// storeError returns the exit error for an error of package lock other than ErrHeld.
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
