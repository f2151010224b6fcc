//go:build !linux

package process

import "os/exec"

// dieWithParent does nothing: the child finds its input ended, unless it is frozen.
func dieWithParent(*exec.Cmd) {}

// awaitStop does nothing: there is no portable way to know.
func awaitStop(int) {}
