//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

var (
	// signalsEnding end waiting for the lock; the command gets them once it runs.
	signalsEnding = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}
	// signalsPassed mean something only to the command.
	signalsPassed = []os.Signal{unix.SIGCONT, unix.SIGWINCH}
	// signalsOfPipes come if nobody reads what we print. Then the write fails, and the command is still stopped in
	// time.
	signalsOfPipes = []os.Signal{unix.SIGPIPE}
	// signalsStopping are caught once there is a command to stop too. Until then they simply stop us.
	signalsStopping = []os.Signal{unix.SIGTSTP}

	// signalsToEnd ask a command to end, whatever its exit code is then. A command may handle SIGUSR1 and SIGUSR2 and
	// continue.
	signalsToEnd = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}
	// signalsOfTerminal are sent by the terminal to the whole group of the command, and not to us.
	signalsOfTerminal = []os.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGQUIT}

	signalContinue os.Signal = unix.SIGCONT
)
