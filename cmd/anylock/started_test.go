//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// inheritNoSignals lets the programs under test begin with no signal ignored, also where we were started by nohup(1) or
// in the background of a script. A signal that is caught is not ignored after exec(3); here nobody reads it. What nohup
// keeps off, our children would then get with the rest of our group when the terminal hangs up, so that we leave it.
func inheritNoSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
			_ = syscall.Setpgid(0, 0) // the leader of a session is alone in its group already
		}
	}
}

// Tests do not depend on how they are started: in the background, by nohup(1), without standard input.
func TestStartedByNohup(t *testing.T) {
	t.Parallel()
	tests := exec.Command("sh", "-c",
		`trap "" HUP INT QUIT; exec "$0" -test.short -test.run "^TestFile$/^(signals|waiting)$" <&-`, os.Args[0])
	// testscript leaves its folder there if only some scripts of it run
	tests.Env = append(os.Environ(), "GOTMPDIR="+t.TempDir())
	tests.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := tests.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
