//go:build linux || freebsd

package main

import "syscall"

// processAttributes puts the command in a group of its own, and has the kernel kill it when anylock is killed, after
// which nobody could stop it at the end of the lease.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
