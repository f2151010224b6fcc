//go:build unix

package main

import (
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
		if ctx.Err() == nil {
			t.Error("a signal that ends has not ended the context")
		}
		// Later signals stay in the channel, for the command.
		signals <- syscall.SIGINT
		if exit, ok := stop().(*exitError); !ok || exit.code != exitSignal+int(syscall.SIGTERM) {
			t.Errorf("stop: %v", exit)
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
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		signals <- syscall.SIGTERM
		synctest.Wait()
		if ctx.Err() != nil || len(signals) != 1 {
			t.Error("the watch goes on after stop")
		}
	})
}
