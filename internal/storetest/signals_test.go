//go:build unix

package storetest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

// role selects one of the programs that TestTakeSignals starts.
const role = "ANYLOCK_STORETEST_SIGNALS"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "takes":
		storetest.TakeSignals()
	case "leaves":
	default:
		os.Exit(m.Run())
	}
	// If the signals ended this program itself, the following code would not run.
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			panic(err)
		}
		err := exec.Command("/bin/sh", "-c", `kill -$0 $$`, strings.TrimPrefix(signalNames[s], "SIG")).Run()
		state := "survives"
		if e := (*exec.ExitError)(nil); errors.As(err, &e) && e.Sys().(syscall.WaitStatus).Signal() == s {
			state = "ends"
		}
		os.Stdout.WriteString(signalNames[s] + " " + state + "\n")
	}
}

var signalNames = map[syscall.Signal]string{syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT"}

func TestTakeSignals(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for does, want := range map[string]string{
		"leaves": "SIGHUP survives\nSIGINT survives\n", // otherwise the test proves nothing
		"takes":  "SIGHUP ends\nSIGINT ends\n",
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/bin/sh", "-c", `trap "" HUP INT; exec "$0"`, program)
			cmd.Env = append(os.Environ(), role+"="+does)
			got, err := cmd.CombinedOutput()
			if err != nil || string(got) != want {
				t.Errorf("%v, printed:\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}
