//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Tests do not depend on how they are started: in the background, by nohup(1), without standard input.
func TestStartedByNohup(t *testing.T) {
	t.Parallel()
	tests := exec.Command("sh", "-c", `trap "" HUP INT QUIT; exec "$0" -test.short -test.run "^TestFile$/^(signals|waiting)$" <&-`, os.Args[0])
	tests.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := tests.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
