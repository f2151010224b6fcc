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
	pid     int // of the command; also the ID of its group
	reports chan childEvent
	tty     *terminal // nil without a controlling terminal
	guard   *guard    // nil for none

	mu         sync.Mutex
	reaped     bool // the command was reaped; its PID may be reused once the group is empty
	groupEmpty bool // the group was found empty; its ID may belong to another group by now

	stopForwarded bool // a SIGTSTP was forwarded
}

// startChild starts p. From now on it also relays signalsStopping to signals.
func startChild(p program, signals chan<- os.Signal) (child, error) {
	notify(signals, signalsStopping) // first: if only this process stopped, the command would run without its lock
	c := &process{reports: make(chan childEvent), tty: openTerminal(), guard: p.guard}
	c.guard.protect(p.ttl, p.deadline)
	started, handed := make(chan error), make(chan struct{})
	go func() {
		// With Pdeathsig (see processAttributes), the kernel kills the child when the thread that started the child ends. So
		// this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		proc, err := ownChildren.start(func() (*os.Process, error) {
			return os.StartProcess(p.file, p.argv, &os.ProcAttr{
				Env: p.env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: processAttributes(),
			})
		})
		if err == nil {
			c.pid = proc.Pid
			// If anylock is killed just before, the kernel kills the command (see Pdeathsig), but not what it has started.
			c.guard.setGroup(c.pid)
		}
		started <- err
		if err == nil {
			<-handed // handOver ends a stop for lack of the terminal; a later report of that stop would undo a Ctrl-Z
			c.reports <- c.wait()
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

// wait reports each stop of the command, and returns its end. os.Process.Wait would not report stops.
func (c *process) wait() childEvent {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(c.pid, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && status.Stopped():
			c.reports <- childEvent{stopped: status.StopSignal()}
			continue
		}
		ownChildren.remove(c.pid)
		c.mu.Lock()
		c.reaped = true
		c.mu.Unlock()
		switch {
		case err != nil: // something else has reaped the command: its exit code is unknown
			return childEvent{code: exitSignal}
		case status.Signaled():
			return childEvent{
				code: exitSignal + int(status.Signal()), signal: status.Signal(), ownTTY: c.tty.foregroundIs(c.pid),
			}
		default:
			return childEvent{code: status.ExitStatus()}
		}
	}
}

func (c *process) events() <-chan childEvent { return c.reports }

func (c *process) renewed() { c.guard.update() }

func (c *process) forward(sig os.Signal) {
	s, ok := sig.(unix.Signal)
	if !ok {
		return
	}
	if s == unix.SIGTSTP {
		c.stopForwarded = true
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

// signal sends s to the group. The kernel does not reuse the group's ID while the group has members or its leader is
// not reaped.
func (c *process) signal(s unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groupEmpty {
		return
	}
	if err := unix.Kill(-c.pid, s); errors.Is(err, unix.ESRCH) && c.reaped {
		c.groupEmpty = true
	}
}

func (c *process) groupEnded() bool {
	c.signal(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped && !c.groupEmpty { // orphans of the group may be children of ours, which hidepid hides from reapOrphans
		unix.Wait4(-c.pid, nil, unix.WNOHANG, nil) //nolint:errcheck // the next call tries again
	}
	// Ended members still accept signals until their parents reap them, so also check for running members.
	return c.groupEmpty || c.reaped && !groupRuns(c.pid)
}

func (c *process) foreign() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.groupEmpty && groupIsForeign(c.pid)
}

func (c *process) close() {
	c.guard.dismiss()
	c.tty.reclaim(c.pid)
	c.tty.close()
}
