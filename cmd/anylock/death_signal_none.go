//go:build unix && !linux && !freebsd

package main

import "syscall"

// processAttributes puts the command into its own process group. This system cannot kill the command when anylock is
// killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
