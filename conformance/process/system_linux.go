package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the child when this process dies, even if the child is frozen.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// sharedClock returns the time since boot by a clock that all processes share and nobody sets. It returns 0 if there is
// none.
func sharedClock() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// awaitStop waits until every thread of a process has stopped after SIGSTOP. On a busy machine some threads keep
// running for milliseconds, and may act although the process counts as frozen.
func awaitStop(pid int) {
	const most, pause = 10 * time.Second, 200 * time.Microsecond
	for end := time.Now().Add(most); !stopped(pid) && time.Now().Before(end); {
		time.Sleep(pause)
	}
}

// stopped reports whether no thread of a process is running. It is also true if the process does not exist.
func stopped(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(dir + "/" + thread.Name() + "/stat")
		if err != nil {
			continue // the thread has ended
		}
		// The format is "pid (name) state …", where the name may contain any characters.
		if _, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")); !ok ||
			!bytes.ContainsAny(state[:1], "TtZX") {
			return false
		}
	}
	return true
}
