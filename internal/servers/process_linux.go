package servers

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const diesWithParent = true

// dieWithParent makes the kernel kill the child when the test process dies for any reason. The child gets its own
// process group, so that signals to the tests do not reach it: SIGCONT would continue a frozen server.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// awaitStop waits until all threads of a child that was sent SIGSTOP have stopped. On a busy machine they still run and
// serve for some milliseconds.
func awaitStop(pid int) error {
	const most, pause = 10 * time.Second, time.Millisecond
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(pause) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for its stop: %w", err)
		case info.Signo != 0:
			return nil
		}
	}
	return fmt.Errorf("it runs %v after SIGSTOP", most)
}
