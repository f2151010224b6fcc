package main

import (
	"os"
	"syscall"
)

var (
	// signalsEnding end waiting for the lock; the command gets a Ctrl-Break for them once it runs.
	signalsEnding                 = []os.Signal{os.Interrupt, syscall.SIGTERM}
	signalsPassed, signalsOfPipes []os.Signal

	signalContinue os.Signal // there is none
)
