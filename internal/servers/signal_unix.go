//go:build unix

package servers

import "syscall"

func (p *process) signal(sig signal) error {
	number := map[signal]syscall.Signal{sigStop: syscall.SIGSTOP, sigCont: syscall.SIGCONT}[sig]
	return p.cmd.Process.Signal(number)
}
