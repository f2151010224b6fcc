//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// inheritNoSignals catches SIGHUP and SIGINT if they are ignored, as after nohup(1) or in the background of a script.
// Child processes would inherit ignored signals, but exec(3) resets caught signals to the default action. Nobody reads
// the channel. inheritNoSignals also leaves the process group, because otherwise a hangup of the terminal would now
// kill the children.
func inheritNoSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
			_ = syscall.Setpgid(0, 0) // fails for a session leader, which is already alone in its group
		}
	}
}

// The tests pass however they are started: in the background, by nohup(1), or without standard input.
func TestStartedByNohup(t *testing.T) {
	t.Parallel()
	tests := exec.Command("sh", "-c",
		`trap "" HUP INT QUIT; exec "$0" -test.short -test.run "^TestFile$/^(signals|waiting)$" <&-`, os.Args[0])
	// if only some of its scripts run, testscript does not remove its folder
	tests.Env = append(os.Environ(), "GOTMPDIR="+t.TempDir())
	tests.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := tests.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
