package main

import (
	"os"
	"time"
)

// A child is the command that runs under the lock, with the processes of its group: all that it has started and that
// have not left it. A supervisor is its only caller.
type child interface {
	// events reports every time the command itself has stopped, and last that it has ended. It is not closed.
	events() <-chan childEvent
	// forward passes a signal on to the group.
	forward(sig os.Signal)
	// terminate asks the group to end. With wake a stopped one is continued, so that it can.
	terminate(wake bool)
	// kill ends every process of the group.
	kill()
	// gone reports whether nothing of the group runs any more. It is meant for after the command itself has ended.
	gone() bool
	// foreign reports whether something of the group runs that this process may not signal.
	foreign() bool
	// stopped decides, after the command was stopped by sig, whether this process has to stop too for the shell to get
	// its terminal back; otherwise it does what lets the command go on.
	stopped(sig os.Signal) (suspend bool)
	// suspend takes the terminal back and stops this process as the command was. The shell's SIGCONT continues it.
	suspend()
	// resume gives the terminal to the command and continues the group.
	resume()
	// close takes the terminal back and dismisses the guard. Call it when all is over.
	close()
}

// A childEvent is what happened to the command itself.
type childEvent struct {
	stopped os.Signal // not nil: it was stopped by this signal
	code    int       // else it has ended, with this exit code: 128 + N for signal N
	signal  os.Signal // that ended it, nil if it exited
}

// A program is what to start, with our own standard files, and until when it may run at most, whatever happens to this
// process.
type program struct {
	file      string
	argv, env []string

	ttl      time.Duration
	deadline func() time.Time
	guard    *guard // nil for none
}
