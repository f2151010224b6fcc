//go:build !linux

package servers

import "os/exec"

const diesWithParent = false

// dieWithParent does nothing: only Linux ties a child to its parent. A test process that is killed leaves its servers.
func dieWithParent(*exec.Cmd) {}
