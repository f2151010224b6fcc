//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// A guard is a second process that ends the command's group where this one cannot: when it is killed, or does not run
// at the end of the lease because it was stopped. It is told everything through a pipe, whose end means that this
// process is dead.
type guard struct {
	pipe     *os.File
	ttl      time.Duration
	deadline func() time.Time
	stop     func() // telling of renewals

	mu    sync.Mutex
	group int // 0 while there is none
}

const guardName = "guard"

// startGuard starts a guard that knows when to kill, before there is anything to kill: were this process stopped in between, nobody
// would. deadline is asked for again and again: it moves with renewals.
func startGuard(ttl time.Duration, deadline func() time.Time) (*guard, error) {
	file, err := os.Executable()
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Cmd{Path: file, Args: []string{os.Args[0], guardName}, Dir: "/", Stdin: theirs, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	go cmd.Wait() //nolint:errcheck // how it ended is of no matter
	g := &guard{pipe: ours, ttl: ttl, deadline: deadline}
	told := deadline()
	g.tell()
	const times = 10 // while the lease lasts
	g.stop = repeat(max(ttl/times, time.Millisecond), func(context.Context) {
		if d := deadline(); !d.Equal(told) {
			told = d
			g.tell()
		}
	})
	return g, nil
}

// over tells the guard which group to kill, 0 for none any more.
func (g *guard) over(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.group = group
	g.mu.Unlock()
	g.tell()
}

// tell sends the group, and when to kill it, by monotonic. Without its guard the command is as safe as we are, so that errors do not
// matter.
func (g *guard) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Half of the margin is for us, who say why.
	killAt := monotonic() + time.Until(g.deadline()) - killMargin(g.ttl)/2
	fmt.Fprintln(g.pipe, g.group, int64(killAt)) //nolint:errcheck // see above
}

const guardPatience = 100 * time.Millisecond // for a guard that is stopped, once the pipe is full

// dismiss ends the guard and leaves the group alone.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(guardPatience)) //nolint:errcheck // pipes have deadlines
	g.stop()
	g.over(0)
	g.pipe.Close()
}

// monotonic is the time since an arbitrary instant that all processes of this machine share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every system that we build for has it
	}
	return time.Duration(t.Nano())
}

// guardCommand is the program that startGuard starts. It is not for people.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: guardName, Hidden: true, Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			for _, list := range [][]os.Signal{signalsEnding, signalsStopping} {
				signal.Ignore(list...) // they are for anylock, which passes them on
			}
			if group := groupToKill(os.Stdin); group > 1 {
				unix.Kill(-group, unix.SIGKILL)
			}
			return nil
		},
	}
}

// groupToKill reads messages, and returns when a group has to be killed, or 0 when none has to be any more.
func groupToKill(messages io.Reader) (group int) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(messages); s.Scan(); {
			lines <- s.Text()
		}
	}()
	due := time.NewTimer(time.Hour)
	due.Stop()
	defer due.Stop()
	for {
		var line string
		var ok bool
		select {
		case line, ok = <-lines:
		case <-due.C:
			select { // it may be us who did not run, and a message waits
			case line, ok = <-lines:
			default:
				if group > 0 {
					return group
				}
				continue // until we know of one, which is then overdue
			}
		}
		if !ok {
			return group
		}
		var killAt time.Duration
		if _, err := fmt.Sscan(line, &group, (*int64)(&killAt)); err == nil {
			due.Reset(killAt - monotonic())
		}
	}
}
