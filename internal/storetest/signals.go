package storetest

import (
	"os"
	"os/signal"
	"syscall"
)

// TakeSignals makes the programs that a test starts react to SIGHUP and SIGINT, even if the tests run under nohup or in
// the background of a shell and so ignore these signals. A program that is started inherits ignored signals, but not
// caught ones. The tests themselves still ignore the signals. Call TakeSignals in TestMain, before anything is started.
// A program that a test starts must not call it.
func TakeSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // nobody receives them
		}
	}
}
