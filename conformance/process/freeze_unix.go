//go:build unix

package process

import (
	"os"
	"syscall"
)

const canFreeze = true

// freeze returns when the process has stopped running. If the signal fails, the process has ended.
func freeze(p *os.Process) {
	if p.Signal(syscall.SIGSTOP) == nil {
		awaitStop(p.Pid)
	}
}

func thaw(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
