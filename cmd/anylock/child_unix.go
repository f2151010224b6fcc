//go:build unix

package main

import (
	"errors"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A process is a child in a process group of its own.
type process struct {
	pid     int // of the command, and of its group
	happens chan childEvent
	tty     *terminal // nil without a controlling terminal
	guard   *guard    // nil for none

	mu     sync.Mutex
	reaped bool // the command has ended and its number is free unless the group still uses it
	over   bool // the group has been seen to be empty: its number may be another's by now

	stopAsked bool // a SIGTSTP was forwarded
}

// startChild starts p. From now on signalsStopping are sent to signals.
func startChild(p program, signals chan<- os.Signal) (child, error) {
	notify(signals, signalsStopping) // at once: to be stopped alone would let the command run on without its lock
	c := &process{happens: make(chan childEvent), tty: openTerminal(), guard: p.guard}
	c.guard.protect(p.ttl, p.deadline)
	started, handed := make(chan error), make(chan struct{})
	go func() {
		// The kernel takes the death of the thread that started a child for the death of its parent (see
		// processAttributes).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		proc, err := ownChildren.start(func() (*os.Process, error) {
			return os.StartProcess(p.file, p.argv, &os.ProcAttr{
				Env: p.env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: processAttributes(),
			})
		})
		if err == nil {
			c.pid = proc.Pid
			c.guard.kills(c.pid)
		}
		started <- err
		if err == nil {
			<-handed // a stop for want of the terminal is over then: a later report would undo a Ctrl-Z
			c.happens <- c.wait()
			proc.Release()
		}
	}()
	if err := <-started; err != nil {
		c.tty.close()
		return nil, err
	}
	c.tty.handOver(c.pid)
	close(handed)
	return c, nil
}

// wait reports stops until the command has ended. os.Process.Wait would not tell of them.
func (c *process) wait() childEvent {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(c.pid, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && status.Stopped():
			c.happens <- childEvent{stopped: status.StopSignal()}
			continue
		}
		ownChildren.remove(c.pid)
		c.mu.Lock()
		c.reaped = true
		c.mu.Unlock()
		switch {
		case err != nil: // somebody else has reaped it: its code is not known
			return childEvent{code: exitSignal}
		case status.Signaled():
			return childEvent{code: exitSignal + int(status.Signal()), signal: status.Signal()}
		default:
			return childEvent{code: status.ExitStatus()}
		}
	}
}

func (c *process) events() <-chan childEvent { return c.happens }

func (c *process) forward(sig os.Signal) {
	s, ok := sig.(unix.Signal)
	if !ok {
		return
	}
	if s == unix.SIGTSTP {
		c.stopAsked = true
	}
	c.signal(s)
}

func (c *process) terminate(wake bool) {
	c.signal(unix.SIGTERM)
	if wake {
		c.signal(unix.SIGCONT)
	}
}

func (c *process) kill() { c.signal(unix.SIGKILL) }

// signal sends s to the group. The kernel does not give the group's number to another process while the group has
// members or its leader is not reaped.
func (c *process) signal(s unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if err := unix.Kill(-c.pid, s); errors.Is(err, unix.ESRCH) && c.reaped {
		c.over = true
	}
}

func (c *process) gone() bool {
	c.signal(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Members that have ended stay as long as their parent does not reap them, and still get signals.
	return c.over || c.reaped && !groupRuns(c.pid)
}

func (c *process) foreign() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.over && groupIsForeign(c.pid)
}

func (c *process) close() {
	c.guard.dismiss()
	c.tty.takeBack(c.pid)
	c.tty.close()
}
