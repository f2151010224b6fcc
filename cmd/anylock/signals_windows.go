package main

import (
	"os"
	"os/signal"
	"syscall"
)

var (
	// signalsEnding end waiting for the lock; the command gets a Ctrl-Break for them once it runs.
	signalsEnding = []os.Signal{os.Interrupt, syscall.SIGTERM}
	signalsPassed []os.Signal

	signalContinue os.Signal // there is none
)

func notify(signals chan<- os.Signal, which []os.Signal) {
	if len(which) > 0 { // none would mean all
		signal.Notify(signals, which...)
	}
}
