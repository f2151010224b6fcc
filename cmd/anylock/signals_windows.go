package main

import (
	"os"
	"syscall"
)

var (
	// signalsEnding end the wait for the lock. Once the command runs, they are passed on to it as Ctrl-Break.
	signalsEnding                 = []os.Signal{os.Interrupt, syscall.SIGTERM}
	signalsPassed, signalsOfPipes []os.Signal

	signalsToEnd      = signalsEnding
	signalsOfTerminal []os.Signal // empty: the console sends its signals to this process too, which passes them on

	signalContinue os.Signal // nil: Windows has none
)

// dieOf does nothing: Windows has no signals, and the console sends Ctrl-C to every process.
func dieOf(interrupt) {}
