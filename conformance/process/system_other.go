//go:build !linux

package process

import (
	"os/exec"
	"time"
)

// dieWithParent does nothing. When the parent dies, the child's input ends, but a frozen child does not notice.
func dieWithParent(*exec.Cmd) {}

// awaitStop does nothing, because there is no portable way to detect a stop.
func awaitStop(int) {}

// sharedClock returns 0, because there is no portable shared clock.
func sharedClock() time.Duration { return 0 }
