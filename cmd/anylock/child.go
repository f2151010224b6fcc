package main

import (
	"os"
	"time"
)

// A child is the command that runs under the lock, with its process group. The group has all processes that the command
// has started and that have not left it. Only a supervisor calls a child.
type child interface {
	// events reports each stop of the command itself, and finally its end. The channel is never closed.
	events() <-chan childEvent
	// renewed passes the lease's deadline on to the guard if the deadline has changed.
	renewed()
	// forward passes a signal on to the group.
	forward(sig os.Signal)
	// terminate asks the group to end. With wake it also continues a stopped group, because a stopped process cannot end.
	terminate(wake bool)
	// kill ends every process of the group.
	kill()
	// groupEnded reports whether all processes of the group have ended. Call it only after the command itself has ended.
	groupEnded() bool
	// foreign reports whether a process of the group runs that this process may not signal.
	foreign() bool
	// stopped handles a stop of the command by sig. It returns true if this process must stop too, so that the shell gets
	// its terminal back. If the command only lacks the terminal, stopped hands it over and continues the command.
	stopped(sig os.Signal) (suspend bool)
	// suspend takes the terminal back and stops this process as the command was stopped. The shell's SIGCONT continues
	// this process.
	suspend()
	// resume returns the terminal to the command, if the command had it, and continues the group.
	resume()
	// close takes the terminal back and dismisses the guard. It must be the last call.
	close()
}

// A childEvent reports that the command itself has stopped or ended.
type childEvent struct {
	stopped os.Signal // the signal that stopped the command; nil if the command has ended
	code    int       // the exit code of an ended command: 128 + N for signal N
	signal  os.Signal // the signal that ended the command; nil if the command exited
	ownTTY  bool      // the command's group was the foreground group of the terminal when a signal ended the command
}

// A program is a command to start with our own standard files. The guard kills its group shortly before deadline if
// this process cannot.
type program struct {
	file      string
	argv, env []string

	ttl      time.Duration
	deadline func() time.Time
	guard    *guard // nil for none
}
