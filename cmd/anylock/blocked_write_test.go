//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock"
)

// fullPipe returns the end of a pipe to write to. A write blocks, because nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = out.Close()
	})
	chunk := make([]byte, 4096)
	for err == nil {
		_ = out.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		_, err = out.Write(chunk)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return out
}

// A signal ends a command whose output blocks. The lock is then free.
func TestSignalEndsBlockedOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"hold", []string{"hold", "k"}, exitSignal + int(syscall.SIGTERM)},
		{"acquire", []string{"acquire", "k"}, exitSignal + int(syscall.SIGTERM)},
		{"serve", []string{"serve", "--listen"}, exitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "s")
			if c.name == "serve" {
				c.args = append(c.args, "unix:"+socket)
			}
			cmd, locks := blocked(t, c.args...)
			cmd.Stdout = fullPipe(t)
			ended := startBlocked(t, cmd)
			if c.name == "serve" {
				awaitFile(t, socket)
			} else {
				awaitHeld(t, locks, true)
			}
			endsWithin(t, cmd, ended, c.code)
			awaitHeld(t, locks, false)
		})
	}
}

// If the input of hold ends, hold ends too, although nobody reads its line.
func TestEndOfInputEndsBlockedHold(t *testing.T) {
	t.Parallel()
	cmd, locks := blocked(t, "hold", "k")
	cmd.Stdout = fullPipe(t)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := startBlocked(t, cmd)
	awaitHeld(t, locks, true)
	_ = stdin.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("still runs")
	}
	awaitHeld(t, locks, false)
}

// A signal ends a command that cannot print its messages, also while the command waits for its last ones to be printed.
func TestSignalEndsBlockedMessages(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"run", "-n", "k", "--", "true"}, {"hold", "-n", "k"}, {"acquire", "-v", "-n", "k"},
		{"release", "-v", "--owner", "o", "k"}, {"serve", "-v", "--listen", "127.0.0.1:0"},
	} {
		for _, pause := range []time.Duration{noticesPatience / 2, 2 * noticesPatience} {
			t.Run(args[0]+" "+pause.String(), func(t *testing.T) {
				t.Parallel()
				cmd, locks := blocked(t, args...)
				lease, err := locks.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				defer lease.Release(t.Context())
				cmd.Stderr = fullPipe(t)
				ended := startBlocked(t, cmd)
				// The command may end by itself, but a command that blocks must end with the signal.
				time.Sleep(pause) // sleeps: the command waits for its notices to be printed, or has given up
				endsWithin(t, cmd, ended, -1)
			})
		}
	}
}

// blocked returns a command of anylock on a store of its own, and a Locker on that store.
func blocked(t *testing.T, args ...string) (*exec.Cmd, *lock.Locker) {
	t.Helper()
	url := fileURL(t.TempDir())
	locks, err := lock.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	cmd := exec.Command("anylock", args...)
	cmd.Env = append(os.Environ(), "ANYLOCK_URL="+url)
	return cmd, locks
}

// startBlocked starts a command whose input does not end, unless it has one already. The channel is closed when the
// command has ended.
func startBlocked(t *testing.T, cmd *exec.Cmd) (ended <-chan struct{}) {
	t.Helper()
	if cmd.Stdin == nil {
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stdin.Close() })
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return done
}

// endsWithin sends SIGTERM. The command must end in time, with the code unless that is negative.
func endsWithin(t *testing.T, cmd *exec.Cmd, ended <-chan struct{}, code int) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("still runs after SIGTERM")
	}
	if got := cmd.ProcessState.ExitCode(); code >= 0 && got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
}

// await calls check until it returns nil.
func await(t *testing.T, check func() error) {
	t.Helper()
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(poll) {
		if err := check(); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func awaitFile(t *testing.T, file string) {
	t.Helper()
	await(t, func() error {
		_, err := os.Stat(file)
		return err
	})
}

// awaitHeld waits until k is held, or free.
func awaitHeld(t *testing.T, locks *lock.Locker, want bool) {
	t.Helper()
	await(t, func() error {
		h, err := locks.Ops().Inspect(t.Context(), "k")
		if err == nil && h.Held() != want {
			return fmt.Errorf("held %v, want %v", h.Held(), want)
		}
		return err
	})
}
