//go:build unix

package servers

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// sigKill is used for the children of a server that was killed.
const sigKill signal = "SIGKILL"

var signals = map[signal]syscall.Signal{sigStop: syscall.SIGSTOP, sigCont: syscall.SIGCONT, sigKill: syscall.SIGKILL}

func (p *process) signal(sig signal) error {
	if err := p.cmd.Process.Signal(signals[sig]); err != nil || sig != sigStop {
		return err
	}
	return awaitStop(p.pid())
}

// signalPids signals processes. It ignores those that have ended.
func signalPids(pids []int, sig signal) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, signals[sig]); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// apply makes cmd run as the identity.
func (id *identity) apply(cmd *exec.Cmd) {
	if id == nil {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(id.uid), Gid: uint32(id.gid)}
}

// ownedBy reports whether path is a folder that belongs to the identity.
func ownedBy(id *identity, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	uid := os.Getuid()
	if id != nil {
		uid = id.uid
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}
