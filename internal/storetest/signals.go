package storetest

import (
	"os"
	"os/signal"
	"syscall"
)

// TakeSignals makes what a test starts react to SIGHUP and SIGINT, also where the tests themselves are to ignore them:
// below nohup, or in the background of a shell. An ignored signal stays ignored in a program that is started, a caught
// one does not. The tests go on as if they ignored it. It belongs in a TestMain, before anything is started; a program
// that serves a test must not call it.
func TakeSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // nobody looks there
		}
	}
}
