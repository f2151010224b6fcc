package main

import (
	"os"
	"syscall"
)

var (
	// signalsEnding end waiting for the lock; the command gets a Ctrl-Break for them once it runs.
	signalsEnding                 = []os.Signal{os.Interrupt, syscall.SIGTERM}
	signalsPassed, signalsOfPipes []os.Signal

	signalsToEnd      = signalsEnding
	signalsOfTerminal []os.Signal // the console sends its signals to us too, and we pass them on

	signalContinue os.Signal // there is none
)
