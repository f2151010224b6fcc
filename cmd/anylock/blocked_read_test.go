//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A blockedRead is a command that reads a file that has no data yet.
type blockedRead struct {
	name string
	args []string // FILE stands for the path of the file
	env  string
	all  bool // test every signal of endings
}

// commandsWithStore are commands that need a store, without the flag that names it.
var commandsWithStore = [][]string{
	{"run", "k", "--", "true"}, {"hold", "k"}, {"acquire", "k"}, {"list"}, {"serve", "--listen", "127.0.0.1:0"},
	{"inspect", "k"}, {"release", "k", "--owner", "o"}, {"doctor"}, {"conform"}, {"bench"},
}

const handling = 5 // the number of first commands in commandsWithStore that are tested with every signal

// blockedReads returns every read of a command that may block.
func blockedReads() (list []blockedRead) {
	for i, c := range commandsWithStore {
		args := slices.Concat(c[:1], []string{"--backend-file", "FILE"}, c[1:])
		list = append(list, blockedRead{c[0] + " --backend-file", args, "", i < handling})
	}
	serve := commandsWithStore[handling-1]
	for _, c := range [][]string{commandsWithStore[0], serve} {
		list = append(list, blockedRead{c[0] + " $ANYLOCK_URL_FILE", c, "ANYLOCK_URL_FILE=FILE", false})
		for name, url := range map[string]string{
			"cacert":      "rediss://127.0.0.1:1?cacert=FILE",
			"cert":        "etcds://127.0.0.1:1?cert=FILE&key=FILE",
			"sslrootcert": "postgres://127.0.0.1:1/db?sslmode=verify-full&sslrootcert=FILE",
		} {
			list = append(list, blockedRead{c[0] + " " + name, c, "ANYLOCK_URL=" + url, false})
		}
		args := slices.Concat(c[:1], []string{"--backend", "postgres://u@127.0.0.1:1/db"}, c[1:])
		list = append(list, blockedRead{c[0] + " $PGPASSFILE", args, "PGPASSFILE=FILE", false})
	}
	for _, flags := range [][]string{{"--clients", "FILE"}, {"--tls-cert", "FILE", "--tls-key", "FILE"}} {
		list = append(list, blockedRead{"serve " + flags[0], slices.Concat(serve, flags), "ANYLOCK_URL=memory:", false})
	}
	return list
}

var endings = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}

// A signal ends every read that may block. A named pipe that nobody has opened for writing blocks in open. A named pipe
// with a silent writer blocks in read.
func TestSignalEndsBlockedRead(t *testing.T) {
	t.Parallel()
	for _, r := range blockedReads() {
		signals := endings
		if !r.all {
			signals = endings[:1]
		}
		for i, sig := range signals {
			t.Run(r.name+" "+unix.SignalName(sig), func(t *testing.T) {
				t.Parallel()
				pipe := namedPipe(t)
				r.endsWith(t, sig, pipe, nil)
				if i > 0 {
					return
				}
				silent, err := os.OpenFile(pipe, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer silent.Close()
				r.endsWith(t, sig, pipe, nil)
			})
		}
	}
}

// namedPipe makes a named pipe whose path needs no escapes in a URL.
func namedPipe(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "anylock-pipe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	return pipe
}

// A signal ends a blocked read of standard input too.
func TestSignalEndsBlockedStdin(t *testing.T) {
	t.Parallel()
	for i, c := range commandsWithStore[:handling] {
		t.Run(c[0], func(t *testing.T) {
			t.Parallel()
			in, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer out.Close()
			read := blockedRead{args: slices.Concat(c[:1], []string{"--backend-file", "FILE"}, c[1:])}
			read.endsWith(t, endings[i%len(endings)], "/dev/stdin", in)
		})
	}
}

// endsWith runs the command and sends sig when the command reads file. The exit code must be that of the signal.
func (r blockedRead) endsWith(t *testing.T, sig syscall.Signal, file string, stdin *os.File) {
	t.Helper()
	j := newJobOf(t, "anylock", "", "", "")
	var args []string
	for _, a := range r.args {
		args = append(args, strings.ReplaceAll(a, "FILE", file))
	}
	j.cmd = exec.Command("anylock", args...)
	j.cmd.Env = append(os.Environ(), strings.ReplaceAll(r.env, "=FILE", "="+file))
	if stdin == nil { // hold would also end at the end of standard input
		silent, err := j.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	} else {
		j.cmd.Stdin = stdin
	}
	j.start()
	awaitRead(t, j, file)
	j.signal(sig)
	select {
	case <-j.done:
	case <-time.After(patience):
		t.Fatalf("%v: still runs", args)
	}
	code := j.code
	if s := j.cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		code = exitSignal + int(s.Signal())
	}
	if code != exitSignal+int(sig) {
		t.Errorf("%v: exit code %d, want %d", args, code, exitSignal+int(sig))
	}
}

// awaitRead waits until a job blocks in the call that opens a file, or has file open and therefore reads it.
func awaitRead(t *testing.T, j *job, file string) {
	t.Helper()
	const poll = 5 * time.Millisecond
	dir := fmt.Sprintf("/proc/%d", j.cmd.Process.Pid)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		if opensFile(dir) || hasOpen(dir, file) {
			return
		}
		select {
		case <-j.done:
			t.Fatalf("ended with code %d before it read %s", j.code, file)
		default:
		}
	}
	t.Fatalf("does not read %s", file)
}

// opensFile reports whether a thread of the process is blocked in openat.
func opensFile(dir string) bool {
	calls, _ := filepath.Glob(dir + "/task/*/syscall")
	return slices.ContainsFunc(calls, func(call string) bool {
		text, _ := os.ReadFile(call)
		number, _, _ := strings.Cut(string(text), " ")
		return number == strconv.Itoa(unix.SYS_OPENAT)
	})
}

// hasOpen reports whether the process has opened file itself. Descriptor 0 does not count, because it is inherited.
func hasOpen(dir, file string) bool {
	if file == "/dev/stdin" {
		file, _ = os.Readlink(dir + "/fd/0")
	}
	entries, _ := os.ReadDir(dir + "/fd")
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		to, _ := os.Readlink(dir + "/fd/" + e.Name())
		return to == file && e.Name() != "0"
	})
}
