//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is the controlling terminal of this process. Only one process group, the foreground, may read from it; it
// gets the signals of the keyboard. A nil terminal is none, and its methods do nothing.
type terminal struct {
	file   *os.File
	opened bool // by us
	own    int  // our process group
	eager  bool // the command gets it at once, not when it asks
	given  bool // the command has got it
}

// openTerminal finds the controlling terminal. The command gets it at once if both its input and its output are the
// terminal; otherwise, when it is stopped for lack of it, because in "anylock run KEY -- CMD | less" it is less that
// reads the keyboard.
func openTerminal() *terminal {
	t := &terminal{file: os.Stdin, own: unix.Getpgrp()}
	if _, ok := foreground(os.Stdin); ok {
		_, t.eager = foreground(os.Stdout)
		return t
	}
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	t.file, t.opened = file, true
	return t
}

// foreground is the group in the foreground of the terminal f. ok is false where f is not our controlling terminal.
func foreground(f *os.File) (group int, ok bool) {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return group, err == nil
}

func (t *terminal) foregroundIs(group int) bool {
	if t == nil {
		return false
	}
	g, ok := foreground(t.file)
	return ok && g == group
}

func (t *terminal) give(group int) {
	unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) //nolint:errcheck // the terminal has gone: nothing to give
}

// handOver gives the terminal to a new command. That is done here and not in the new process, which would have to
// ignore SIGTTOU for it, and the command would inherit that.
func (t *terminal) handOver(group int) {
	if t == nil {
		return
	}
	// Lets us take the terminal back, and write messages to one that is set to stop writers in the background.
	signal.Ignore(unix.SIGTTOU)
	if t.eager && t.foregroundIs(t.own) {
		t.given = true
		t.give(group)
		unix.Kill(-group, unix.SIGCONT) // it may have asked too early
	}
}

func (t *terminal) takeBack(group int) {
	if t.foregroundIs(group) {
		t.give(t.own)
	}
}

func (t *terminal) close() {
	if t != nil && t.opened {
		t.file.Close()
	}
}

func (c *process) stopped(sig os.Signal) (suspend bool) {
	asked := c.stopAsked
	c.stopAsked = false
	switch {
	case c.tty == nil:
		return false // no shell waits for its terminal: we keep the lock until somebody continues the command
	case !asked && (sig == unix.SIGTTIN || sig == unix.SIGTTOU):
		// to continue it would undo a Ctrl-Z that came to us meanwhile
		if !c.tty.foregroundIs(c.tty.own) && !c.tty.foregroundIs(c.pid) {
			return true // we are in the background ourselves
		}
		c.tty.given = true
		c.resume()
		return false
	case c.tty.foregroundIs(c.pid):
		return true // Ctrl-Z
	}
	// Somebody has stopped the command alone. As long as we run, the lock stays its own.
	return asked
}

// suspend stops the whole job, as the terminal would have done, but with SIGSTOP: package os/signal cannot bring back
// the default action of SIGTSTP once that was caught. In the group of the session's leader there is no shell that could
// continue us, as in a container that was started with anylock.
func (c *process) suspend() {
	c.tty.takeBack(c.pid)
	if session, err := unix.Getsid(0); err == nil && session != unix.Getpgrp() {
		unix.Kill(0, unix.SIGSTOP)
	}
}

func (c *process) resume() {
	if t := c.tty; t != nil && t.given && t.foregroundIs(t.own) {
		t.give(c.pid)
	}
	c.signal(unix.SIGCONT)
}
