//go:build !linux

package servers

import "os/exec"

const diesWithParent = false

// dieWithParent does nothing, because only Linux ties a child to its parent. Servers survive a test process that is
// killed.
func dieWithParent(*exec.Cmd) {}

// awaitStop does nothing, because only Linux lets a process wait for a stop without consuming the child's exit status.
func awaitStop(int) error { return nil }
