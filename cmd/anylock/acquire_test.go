//go:build unix

package main

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestUntilSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 4)
		ctx, stop := untilSignal(t.Context(), signals)
		signals <- syscall.SIGWINCH
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("a signal that ends nothing has ended the context")
		}
		signals <- syscall.SIGTERM
		synctest.Wait()
		if cause, ok := context.Cause(ctx).(*signalError); !ok || cause.sig != syscall.SIGTERM {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		// What comes after is for the command.
		signals <- syscall.SIGINT
		if s := stop(); s == nil || s.sig != syscall.SIGTERM {
			t.Errorf("stop: %v", s)
		}
		if len(signals) != 1 {
			t.Error("the second signal was taken too")
		}
	})
}

func TestUntilSignalQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 4)
		ctx, stop := untilSignal(t.Context(), signals)
		if s := stop(); s != nil {
			t.Errorf("stop: %v", s)
		}
		signals <- syscall.SIGTERM
		synctest.Wait()
		if ctx.Err() != nil || len(signals) != 1 {
			t.Error("the watch goes on after stop")
		}
	})
}
