//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
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
				if err := unix.Kill(-group, unix.SIGKILL); err != unix.EPERM { // EPERM: no process was killed
					return exitWith(guardDone)
				}
			}
			return nil
		},
	}
}

// groupToKill reads messages. It returns the group to kill when the deadline has passed or the messages end, or 0 if
// there is none. If this process did not run for a while, a message with a later deadline may be waiting. So it polls
// the pipe: poll(2) checks once more for messages when its time is over.
func groupToKill(messages *os.File) (group int) {
	fd := int(messages.Fd())
	var killAt time.Duration
	const size = 4096 // about 150 messages
	buffer, unread := make([]byte, size), ""
	for {
		timeout := -1
		if group > 0 {
			timeout = int(min(max(0, killAt-monotonic()), time.Hour).Milliseconds())
		}
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, timeout)
		if err == nil && ready == 0 && monotonic() >= killAt {
			return group
		}
		if ready <= 0 {
			continue
		}
		switch n, err := unix.Read(fd, buffer); {
		case n > 0:
			lines := strings.SplitAfter(unread+string(buffer[:n]), "\n")
			unread = lines[len(lines)-1]
			if len(lines) > 1 { // only the last message matters
				fmt.Sscan(lines[len(lines)-2], &group, (*int64)(&killAt)) //nolint:errcheck // startGuard's process wrote it
			}
		case err == nil || !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return group
		}
	}
}
