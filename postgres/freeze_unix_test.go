//go:build unix

package postgres

import "syscall"

func (p *process) freeze() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
