//go:build linux || freebsd

package main

import "syscall"

// processAttributes puts the command into its own process group. If anylock is killed, the kernel kills the command
// too, because nobody could stop it at the end of the lease.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
