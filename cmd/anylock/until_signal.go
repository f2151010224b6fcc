package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// interrupted returns the exit error for a signal: the code that a shell would report for a command that the signal
// ended.
func interrupted(sig os.Signal) error {
	exit := &exitError{code: exitSignal + int(sig.(syscall.Signal))}
	if sig == os.Interrupt {
		exit.interrupt = ownInterrupt
	}
	return exit
}

// untilSignal returns a context that ends when one of signalsEnding arrives. stop ends the watch, so that later signals
// stay in the channel. It returns the exit error for the signal that arrived, if any. stop does not end the context.
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

// interruptible is untilSignal with a channel of its own, for commands that handle a signal: a shell continues its
// script after them. After the first signal, or after stop, a further signal ends the program.
func interruptible(ctx context.Context) (_ context.Context, stop func() error) {
	signals := make(chan os.Signal, 1)
	notify(signals, signalsEnding)
	ctx, end := untilSignal(ctx, signals)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	return ctx, func() error {
		defer signal.Stop(signals)
		if err := end(); err != nil {
			return exitWith(err.(*exitError).code)
		}
		return nil
	}
}

func ending(sig os.Signal) bool { return slices.Contains(signalsEnding, sig) }

// notify is signal.Notify without the signals that were ignored when we started, as by nohup(1): the command inherits
// that they are ignored.
func notify(signals chan<- os.Signal, which []os.Signal) {
	for _, s := range which {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}
