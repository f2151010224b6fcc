//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal is the controlling terminal of this process. Only one process group, the foreground group, may read from
// the terminal and gets the signals of the keyboard. A nil terminal means that there is none; its methods do nothing.
type terminal struct {
	file       *os.File
	opened     bool // by us
	own        int  // our process group
	eager      bool // hand it to the command at once, not only when the command needs it
	handedOver bool // the command has had the terminal
}

// openTerminal finds the controlling terminal. If both our input and output are the terminal, the command gets the
// terminal at once. Otherwise the command gets the terminal when it is stopped for lack of it: in "anylock run KEY --
// CMD | less", less reads the keyboard.
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

// foreground returns the foreground group of the terminal f. ok is false if f is not our controlling terminal.
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

// setForeground makes group the foreground group.
func (t *terminal) setForeground(group int) {
	unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) //nolint:errcheck // fails only if the tty is gone
}

// handOver gives the terminal to a new command. The new process does not do this itself, because it would have to
// ignore SIGTTOU, and the command would inherit that.
func (t *terminal) handOver(group int) {
	if t == nil {
		return
	}
	// This lets us take the terminal back, and write to a terminal that is set to stop background writers.
	signal.Ignore(unix.SIGTTOU)
	if t.eager && t.foregroundIs(t.own) {
		t.handedOver = true
		t.setForeground(group)
		unix.Kill(-group, unix.SIGCONT) // the command may have been stopped for lack of it already
	}
}

// reclaim makes our group the foreground group, if group is.
func (t *terminal) reclaim(group int) {
	if t.foregroundIs(group) {
		t.setForeground(t.own)
	}
}

func (t *terminal) close() {
	if t != nil && t.opened {
		t.file.Close()
	}
}

// dieOf ends this process by SIGINT if Ctrl-C at our terminal is the reason for the exit. A shell then ends its script
// or loop too. It would continue after an exit, because a program that exits after Ctrl-C has handled it.
func dieOf(i interrupt) {
	if i == noInterrupt || os.Getpid() == 1 || signal.Ignored(os.Interrupt) { // no signal of its own ends process 1
		return
	}
	if t := openTerminal(); t == nil || !t.foregroundIs(t.own) {
		return
	}
	target := os.Getpid()
	if i == commandInterrupt {
		target = 0 // our group: a script around us is in it, and has not got the signal
	}
	signal.Reset(os.Interrupt)
	unix.Kill(target, unix.SIGINT)
	time.Sleep(time.Second) // until the signal has arrived
}

func (c *process) stopped(sig os.Signal) (suspend bool) {
	forwarded := c.stopForwarded
	c.stopForwarded = false
	switch {
	case c.tty == nil:
		return false // no shell waits for its terminal: keep the lock until somebody continues the command
	case !forwarded && (sig == unix.SIGTTIN || sig == unix.SIGTTOU):
		// Do not continue the command if a Ctrl-Z has stopped our job meanwhile, because that would undo the Ctrl-Z.
		if !c.tty.foregroundIs(c.tty.own) && !c.tty.foregroundIs(c.pid) {
			return true // we are in the background too
		}
		c.tty.handedOver = true
		c.resume()
		return false
	case c.tty.foregroundIs(c.pid):
		return true // Ctrl-Z
	}
	// If no SIGTSTP was forwarded, somebody has stopped the command alone. Then this process keeps running, and keeps the
	// lock.
	return forwarded
}

// suspend stops the whole job, as the terminal would have done. It sends SIGSTOP, because package os/signal cannot
// restore the default action of SIGTSTP once that was caught. In the session leader's own group it does not stop us,
// because no shell could continue us. That is so in a container that was started with anylock.
func (c *process) suspend() {
	c.tty.reclaim(c.pid)
	if session, err := unix.Getsid(0); err == nil && session != unix.Getpgrp() {
		unix.Kill(0, unix.SIGSTOP)
	}
}

func (c *process) resume() {
	if t := c.tty; t != nil && t.handedOver && t.foregroundIs(t.own) {
		t.setForeground(c.pid)
	}
	c.signal(unix.SIGCONT)
}
