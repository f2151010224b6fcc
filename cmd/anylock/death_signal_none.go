//go:build unix && !linux && !freebsd

package main

import "syscall"

// processAttributes puts the command in a group of its own. This system cannot tie its life to ours.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
