//go:build !linux

package process

import (
	"os/exec"
	"time"
)

// dieWithParent does nothing: the child finds its input ended, unless it is frozen.
func dieWithParent(*exec.Cmd) {}

// awaitStop does nothing: there is no portable way to know.
func awaitStop(int) {}

// sharedClock is 0: there is no portable one.
func sharedClock() time.Duration { return 0 }
