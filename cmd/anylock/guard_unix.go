//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/backend/kit"
)

const (
	// guardName is the name of the guard process in ps and for killall. It must not contain "anylock", because "killall
	// anylock" and "pkill anylock" must not kill both processes.
	guardName = "lock-guard"
	guardArg  = "guard" // the subcommand that runs a guard
	guardDone = 3       // its exit code after it has killed the group

	guardPatience = 100 * time.Millisecond // how long to wait for a guard that does not read while the pipe is full

	// guardStarts is how many starts in a row may fail. A guard that ends within guardLife counts as a failed start.
	guardStarts = 5
	guardLife   = time.Second
	guardPause  = 10 * time.Millisecond // before the first restart; doubles with each failure
)

// A guard is a second process. It kills the command's group when this process cannot, because this process was killed
// or is stopped at the end of the lease. Messages go through a pipe; the end of the pipe means that this process is
// dead. A guard process that ends or is stopped is replaced. Methods are safe for concurrent use, but protect must
// return before dismiss is called. On a nil guard, methods do nothing.
type guard struct {
	say    func(format string, args ...any)
	starts int // restarts in a row without a process that lived longer than guardLife

	ctx    context.Context // canceled by dismiss, or with a cause if no process runs and none can be started
	cancel context.CancelCauseFunc
	stop   func() // stops the updates of the deadline; nil before protect

	mu       sync.Mutex
	pipe     *os.File // to the current process
	group    int      // 0 if there is none
	ttl      time.Duration
	deadline func() time.Time // nil before protect
	sent     time.Time        // the deadline that the process knows
}

// startGuard starts a guard that has nothing to kill yet. Call it before any long wait: the guard then runs the same
// program as this process, even if the file is replaced or deleted later.
func startGuard(say func(format string, args ...any)) (*guard, error) {
	g := &guard{say: say}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	pid, err := g.start()
	if err != nil {
		g.cancel(err)
		return nil, err
	}
	go g.watch(pid)
	return g, nil
}

// start starts a guard process, and sends it everything that its predecessor knew.
func (g *guard) start() (pid int, err error) {
	file, err := guardFile()
	if err != nil {
		return 0, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer theirs.Close()
	cmd := exec.Cmd{
		Path: file, Args: []string{guardName, guardArg}, Dir: "/", Stdin: theirs,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	proc, err := ownChildren.start(func() (*os.Process, error) { err := cmd.Start(); return cmd.Process, err })
	if err != nil {
		ours.Close()
		return 0, err
	}
	pid = proc.Pid
	proc.Release() //nolint:errcheck // watch waits for it
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe != nil {
		g.pipe.Close()
	}
	g.pipe = ours
	if g.ctx.Err() != nil {
		g.pipe.Close() // ends the new process
	}
	g.send()
	return pid, nil
}

// watch replaces the guard process whenever that ends or is stopped.
func (g *guard) watch(pid int) {
	for {
		started := time.Now()
		done := awaitGuard(pid)
		ownChildren.remove(pid)
		if g.ctx.Err() != nil {
			return
		}
		if done {
			g.say("the command was killed, because anylock had stood still until the lock was about to end")
			return
		}
		if time.Since(started) > guardLife {
			g.starts = 0
		}
		old, err := pid, error(nil)
		if pid, err = g.restart(); err != nil {
			g.cancel(err)
			return
		}
		g.say("the guard process %d was killed or stopped; %d replaces it", old, pid)
	}
}

// awaitGuard returns when the process has ended, and reports whether it has killed the group. It kills a stopped
// process, because a stopped guard protects nothing.
func awaitGuard(pid int) (done bool) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || !status.Stopped():
			return err == nil && status.ExitStatus() == guardDone
		default:
			unix.Kill(pid, unix.SIGKILL) //nolint:errcheck // it is ours, and not reaped yet
		}
	}
}

func (g *guard) restart() (pid int, err error) {
	err = errors.New("every new one is killed at once")
	for ; g.starts < guardStarts; g.starts++ {
		if kit.Sleep(g.ctx, guardPause<<g.starts) != nil {
			return 0, g.ctx.Err()
		}
		var startErr error
		if pid, startErr = g.start(); startErr == nil {
			g.starts++
			return pid, nil
		}
		err = startErr
	}
	return 0, fmt.Errorf("the guard process was killed, and cannot be started again: %w", reason(err))
}

// protect sends the guard the deadline of a group, now and ten times per TTL if it has changed. Call it before the
// group exists: if this process stopped in between, nobody would kill the group.
func (g *guard) protect(ttl time.Duration, deadline func() time.Time) {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.ttl, g.deadline = ttl, deadline
	g.send()
	g.mu.Unlock()
	const times = 10
	g.stop = repeat(max(ttl/times, time.Millisecond), func(context.Context) { g.update() })
}

// update sends the guard the deadline if that has changed.
func (g *guard) update() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.deadline().Equal(g.sent) {
		g.send()
	}
}

// setGroup sets the group to kill, 0 for none.
func (g *guard) setGroup(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.group = group
	g.send()
}

// send sends the group and the time to kill it, on the clock of monotonic. It ignores errors: if the process has ended
// or is stopped, watch replaces it. The caller holds mu.
func (g *guard) send() {
	if g.deadline == nil {
		return
	}
	deadline := g.deadline()
	// In the first half of the margin, this process can kill the group itself and report why.
	killAt := monotonic() + time.Until(deadline) - killMargin(g.ttl)/2
	g.pipe.SetWriteDeadline(time.Now().Add(guardPatience)) //nolint:errcheck // pipes have deadlines
	if _, err := fmt.Fprintln(g.pipe, g.group, int64(killAt)); err == nil {
		g.sent = deadline
	}
}

// dismiss ends the guard without killing the group.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	if g.stop != nil {
		g.stop()
	}
	g.setGroup(0)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel(nil)
	g.pipe.Close()
}

// context returns a context that ends, with a cause, if the guard has ended and cannot be replaced. dismiss ends it
// too.
func (g *guard) context() context.Context {
	if g == nil {
		return context.Background()
	}
	return g.ctx
}

// monotonic returns the time since an arbitrary instant that all processes of this machine share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every system that we build for has it
	}
	return time.Duration(t.Nano())
}
