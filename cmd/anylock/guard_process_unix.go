//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// guardCommand returns the hidden command that startGuard runs.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: guardArg, Hidden: true, Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			setProcessName(guardName)
			for _, list := range [][]os.Signal{signalsEnding, signalsStopping} {
				signal.Ignore(list...) // they are meant for anylock, which passes them on
			}
			if group := groupToKill(os.Stdin); group > 1 {
				unix.Kill(-group, unix.SIGKILL)
			}
			return nil
		},
	}
}

// groupToKill reads messages. It returns the group to kill when the deadline has passed or the messages end, or 0 if
// there is none.
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
			select { // if this process did not run for a while, a message may be waiting
			case line, ok = <-lines:
			default:
				if group > 0 {
					return group
				}
				continue // no group yet: the next message sets the timer
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
