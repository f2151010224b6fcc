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
	// guardName is the name of the guard's process, in ps and for killall. It must not contain the name of the command,
	// because "killall anylock" and "pkill anylock" must not kill both.
	guardName = "lock-guard"
	guardArg  = "guard" // the subcommand that makes this program a guard

	guardPatience = 100 * time.Millisecond // for a guard that does not read, once the pipe is full

	// guardStarts is how many starts in a row may fail. A guard that ends within guardLife counts as a failed start.
	guardStarts = 5
	guardLife   = time.Second
	guardPause  = 10 * time.Millisecond // before the first new start; it doubles with each failure
)

// A guard is a second process that kills the command's group when this process cannot: when this process was killed, or
// is stopped at the end of the lease. Messages go through a pipe; the end of the pipe means that this process is dead.
// A guard that ends or is stopped is replaced. Methods may be called by many goroutines; those of a nil guard do
// nothing.
type guard struct {
	say    func(format string, args ...any)
	starts int // failed ones in a row

	ctx    context.Context // ends with dismiss, and with a cause if no process runs any more and none can be started
	cancel context.CancelCauseFunc
	stop   func() // ends the reports of new deadlines; nil before protect

	mu       sync.Mutex
	pipe     *os.File // to the process that runs now
	group    int      // 0 while there is none
	ttl      time.Duration
	deadline func() time.Time // nil before protect
}

// startGuard starts a guard that has nothing to kill yet. Start it before anything that may take long: the process runs
// the program that this process runs, even if the file is replaced or deleted later.
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

// start starts a process and sends it everything that the process before knew.
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
		g.pipe.Close() // the process ends
	}
	g.send()
	return pid, nil
}

// watch replaces the process when it ends or is stopped.
func (g *guard) watch(pid int) {
	for {
		started := time.Now()
		awaitGuard(pid)
		ownChildren.remove(pid)
		if g.ctx.Err() != nil {
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

// awaitGuard returns when the process has ended. It kills a process that is stopped, because that guards nothing.
func awaitGuard(pid int) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || !status.Stopped():
			return
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

// protect lets the guard know until when a group may run, now and whenever deadline changes. Call it before the group
// exists: if this process were stopped in between, nobody would kill the group.
func (g *guard) protect(ttl time.Duration, deadline func() time.Time) {
	if g == nil {
		return
	}
	sent := deadline()
	g.mu.Lock()
	g.ttl, g.deadline = ttl, deadline
	g.send()
	g.mu.Unlock()
	const times = 10 // while the lease lasts
	g.stop = repeat(max(ttl/times, time.Millisecond), func(context.Context) {
		if d := deadline(); !d.Equal(sent) {
			sent = d
			g.mu.Lock()
			defer g.mu.Unlock()
			g.send()
		}
	})
}

// kills sets the group to kill, 0 for none.
func (g *guard) kills(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.group = group
	g.send()
}

// send sends the group, and when to kill it, by monotonic. An error means that the process has ended, which watch
// notices. The caller holds mu.
func (g *guard) send() {
	if g.deadline == nil {
		return
	}
	// Half of the margin is for us, who say why.
	killAt := monotonic() + time.Until(g.deadline()) - killMargin(g.ttl)/2
	g.pipe.SetWriteDeadline(time.Now().Add(guardPatience)) //nolint:errcheck // pipes have deadlines
	fmt.Fprintln(g.pipe, g.group, int64(killAt))           //nolint:errcheck // see above
}

// dismiss ends the guard, which leaves the group alone.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	if g.stop != nil {
		g.stop()
	}
	g.kills(0)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel(nil)
	g.pipe.Close()
}

// context ends, with a cause, if the guard has ended and cannot be replaced.
func (g *guard) context() context.Context {
	if g == nil {
		return context.Background()
	}
	return g.ctx
}

// monotonic is the time since an arbitrary instant that all processes of this machine share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every system that we build for has it
	}
	return time.Duration(t.Nano())
}
