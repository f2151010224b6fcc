//go:build !linux

package servers

import "os/exec"

const diesWithParent = false

// dieWithParent does nothing: only Linux ties a child to its parent. A test process that is killed leaves its servers.
func dieWithParent(*exec.Cmd) {}

// awaitStop does nothing: only on Linux the end of a stop can be waited for without taking the child's exit from its
// waiter.
func awaitStop(int) error { return nil }
