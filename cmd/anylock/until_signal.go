package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// interrupted is the exit that a shell would report for a command that the signal ended.
func interrupted(sig os.Signal) error { return exitWith(exitSignal + int(sig.(syscall.Signal))) }

// untilSignal returns a context that ends when one of signalsEnding comes. stop ends the watch, leaves further signals
// in the channel, and returns the exit for the one that came, if any; the context lives on.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case sig := <-signals:
				if !ending(sig) {
					continue
				}
				cancel()
				done <- interrupted(sig)
			case <-quit:
				done <- nil
			}
			return
		}
	}()
	return ctx, func() error {
		close(quit)
		return <-done
	}
}

// interruptible is untilSignal for a command that has results to print. A second signal ends the program, and so does
// one after stop.
func interruptible(ctx context.Context) (_ context.Context, stop func() error) {
	signals := make(chan os.Signal, 1)
	notify(signals, signalsEnding)
	ctx, end := untilSignal(ctx, signals)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	return ctx, func() error {
		defer signal.Stop(signals)
		return end()
	}
}

func ending(sig os.Signal) bool { return slices.Contains(signalsEnding, sig) }

// notify is signal.Notify but for signals that we were started with ignored, as by nohup(1): the command inherits that.
func notify(signals chan<- os.Signal, which []os.Signal) {
	for _, s := range which {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}
