package process

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/skew"
)

// startSkewed starts cmd with a wall clock that is off by the given time, in whole seconds, for every package in the
// program. It replaces the clock while the process is traced, before the process runs.
func startSkewed(cmd *exec.Cmd, by time.Duration) error {
	runtime.LockOSThread() // ptrace is bound to the tracing thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return unskewed(err)
	}
	err := awaitTrap(cmd.Process.Pid)
	if err == nil {
		err = skew.Set(cmd.Process.Pid, by)
	}
	if err == nil {
		err = syscall.PtraceDetach(cmd.Process.Pid)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return unskewed(err)
	}
	return nil
}

func unskewed(err error) error {
	return fmt.Errorf("%w: no process with a wrong clock: %w", backend.ErrUnsupported, err)
}

// awaitTrap waits until a traced child has replaced itself by its program (exec).
func awaitTrap(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case !status.Stopped() || status.StopSignal() != syscall.SIGTRAP:
			return fmt.Errorf("wait status %#x", int(status))
		default:
			return nil
		}
	}
}
