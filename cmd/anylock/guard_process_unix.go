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

// guardCommand is the program that startGuard starts. It is not for people.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: guardArg, Hidden: true, Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			setProcessName(guardName)
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
