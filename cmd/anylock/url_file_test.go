//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A URL file that is a pipe to which nobody writes must not keep anylock from ending with a signal.
func TestSignalWhileReadingURL(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "k", "--", "true"}, {"hold", "k"}} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
			t.Run(args[0]+" "+unix.SignalName(sig), func(t *testing.T) {
				t.Parallel()
				pipe := filepath.Join(t.TempDir(), "pipe")
				if err := syscall.Mkfifo(pipe, 0o600); err != nil {
					t.Fatal(err)
				}
				j := newJobOf(t, "anylock", "", "", "")
				j.cmd = exec.Command("anylock", args...)
				j.cmd.Env = append(os.Environ(), "ANYLOCK_URL_FILE="+pipe)
				if args[0] == "hold" {
					in, err := j.cmd.StdinPipe() // its end would end hold too
					if err != nil {
						t.Fatal(err)
					}
					defer in.Close()
				}
				j.start()
				defer openWhenRead(t, pipe).Close()
				j.signal(sig)
				j.finish(exitSignal + int(sig))
			})
		}
	}
}

// openWhenRead opens a named pipe for writing as soon as somebody opens it for reading.
func openWhenRead(t *testing.T, pipe string) *os.File {
	t.Helper()
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		f, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			return f
		}
	}
	t.Fatal("nobody reads the pipe")
	return nil
}
