//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// A guard is a second process that ends the command's group where this one cannot: when it is killed, or does not run
// at the end of the lease because it was stopped. It is told everything through a pipe, whose end means that this
// process is dead.
type guard struct {
	pipe *os.File
	stop chan struct{} // nil before watch
	done chan struct{}
}

const guardName = "guard"

// startGuard starts a guard that has nothing to do yet. It comes before the command, which is then never without it.
func startGuard() (*guard, error) {
	file, err := os.Executable()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	proc, err := os.StartProcess(file, []string{os.Args[0], guardName}, &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{theirs, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		ours.Close()
		return nil, err
	}
	go proc.Wait() //nolint:errcheck // how it ended is of no matter
	return &guard{pipe: ours}, nil
}

// watch tells the guard when to kill, before there is anything to kill: were this process stopped in between, nobody
// would. deadline is asked for again and again: it moves with renewals.
func (g *guard) watch(ttl time.Duration, deadline func() time.Time) {
	if g == nil {
		return
	}
	g.stop, g.done = make(chan struct{}), make(chan struct{})
	told := deadline()
	g.tellKillAt(told, ttl)
	go func() {
		defer close(g.done)
		const times = 10 // while the lease lasts
		tick := time.NewTicker(max(ttl/times, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-g.stop:
				return
			}
			if d := deadline(); !d.Equal(told) {
				told = d
				g.tellKillAt(told, ttl)
			}
		}
	}()
}

func (g *guard) tellKillAt(deadline time.Time, ttl time.Duration) {
	// Half of the margin is for us, who say why.
	g.tell(guardKillAt, int64(monotonic()+time.Until(deadline)-killMargin(ttl)/2))
}

// over tells the guard which group to kill.
func (g *guard) over(group int) {
	if g != nil {
		g.tell(guardGroup, int64(group))
	}
}

// tell sends a message. Without its guard the command is as safe as we are, so that errors do not matter.
func (g *guard) tell(what string, n int64) { fmt.Fprintln(g.pipe, what, n) } //nolint:errcheck // see above

// The messages to a guard, each with a number.
const (
	guardGroup  = "group" // the group to watch over
	guardKillAt = "kill"  // when to kill it, by monotonic
	guardDone   = "done"  // let it be
)

const guardPatience = 100 * time.Millisecond // for a guard that is stopped, once the pipe is full

// dismiss ends the guard and leaves the group alone.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(guardPatience)) //nolint:errcheck // pipes have deadlines
	if g.stop != nil {
		close(g.stop)
		<-g.done
	}
	g.tell(guardDone, 0)
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
func (a *app) guardCommand() *cobra.Command {
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
	overdue := false
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
				overdue = true
				continue
			}
		}
		if !ok {
			return group
		}
		what, number, _ := strings.Cut(line, " ")
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil:
		case what == guardGroup:
			if group = int(n); overdue {
				return group
			}
		case what == guardKillAt:
			overdue = false
			due.Reset(time.Duration(n) - monotonic())
		case what == guardDone:
			return 0
		}
	}
}
