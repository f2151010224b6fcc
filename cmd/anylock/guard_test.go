//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// guardOf waits for the guard that anylock has started, and returns its process id.
func guardOf(t *testing.T, anylock int) int {
	t.Helper()
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			line, _ := os.ReadFile(file)
			if !strings.HasSuffix(string(line), "\x00guard\x00") {
				continue
			}
			stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
			if strings.Contains(string(stat), fmt.Sprintf(") S %d ", anylock)) {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
	}
	t.Fatalf("anylock %d has no guard", anylock)
	return 0
}

func signalTo(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// The guard ends with the command, and leaves alone what that has left in the background.
func TestGuardEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holder := startJob(t, fileURL(dir), "k", `sleep 600 & echo $!; echo $$; while test ! -e '`+dir+`/go'; do sleep 0.05; done`)
	pids := holder.pids(2)
	left, group := pids[0], pids[1]
	guard := guardOf(t, holder.cmd.Process.Pid)
	create(t, filepath.Join(dir, "go")).Close()
	holder.finish(0)
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); groupRuns(guard); time.Sleep(poll) { // it leads a group of its own
		if time.Now().After(end) {
			t.Fatal("the guard is still there")
		}
	}
	if !groupRuns(group) {
		t.Error("what was left in the background was ended")
	}
	signalTo(t, left, syscall.SIGKILL)
}

// Without its guard too the command does not outlive anylock: the kernel sees to that.
func TestKilledWithGuard(t *testing.T) {
	t.Parallel()
	holder := startJob(t, fileURL(t.TempDir()), "k", "echo $$; exec sleep 600", "--ttl", "20")
	group := holder.pids(1)[0]
	signalTo(t, guardOf(t, holder.cmd.Process.Pid), syscall.SIGKILL)
	holder.signal(syscall.SIGKILL)
	awaitEnd(t, group)
}
