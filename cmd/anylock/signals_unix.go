//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

var (
	// signalsEnding end the wait for the lock. Once the command runs, they are passed on to it.
	signalsEnding = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}
	// signalsPassed are meant only for the command.
	signalsPassed = []os.Signal{unix.SIGCONT, unix.SIGWINCH}
	// signalsOfPipes arrive if nobody reads our output. They are caught so that only the write fails: the command must
	// still be stopped in time.
	signalsOfPipes = []os.Signal{unix.SIGPIPE}
	// signalsStopping are caught only while there is a command to stop too. Until then they simply stop this process.
	signalsStopping = []os.Signal{unix.SIGTSTP}

	// signalsToEnd ask a command to end, whatever its exit code is then. SIGUSR1 and SIGUSR2 are not among them, because a
	// command may handle them and continue.
	signalsToEnd = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}
	// signalsOfTerminal are sent by the terminal to the command's whole group, but not to this process.
	signalsOfTerminal = []os.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGQUIT}

	signalContinue os.Signal = unix.SIGCONT
)
