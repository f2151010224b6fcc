package leak

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// leakEnv makes a child process of the tests start a goroutine that never ends.
const leakEnv = "ANYLOCK_TEST_LEAK"

func TestMain(m *testing.M) {
	if os.Getenv(leakEnv) != "" {
		startLeak(make(chan struct{}))
	}
	VerifyTestMain(m)
}

// Tests that pass but leak a goroutine fail as a whole, and the output names the goroutine's function.
func TestLeakFailsTheProcess(t *testing.T) {
	for _, leak := range []string{"", "1"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), leakEnv+"="+leak)
		out, err := cmd.CombinedOutput()
		if leak == "" {
			if err != nil {
				t.Errorf("without a leak: %v\n%s", err, out)
			}
			continue
		}
		if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.ExitCode() != 1 {
			t.Errorf("with a leak: %v, want exit status 1\n%s", err, out)
		}
		if !strings.Contains(string(out), "leak: 1 goroutines are left") || !strings.Contains(string(out), "leak.leaks(") {
			t.Errorf("the output does not show the goroutine:\n%s", out)
		}
	}
}

func TestLeftGoroutineIsFound(t *testing.T) {
	stop := make(chan struct{})
	stopped := startLeak(stop)
	stacks := left(10 * time.Millisecond)
	if len(stacks) != 1 || !strings.Contains(stacks[0], "leak.leaks(") {
		t.Errorf("found %q, want the goroutine of leaks", stacks)
	}
	close(stop)
	<-stopped
	if stacks := left(patience); len(stacks) > 0 {
		t.Errorf("found %q, want nothing", stacks)
	}
}

// startLeak starts a goroutine that ends when stop is closed. It returns when the goroutine runs, because until then
// the stack does not show its function.
func startLeak(stop <-chan struct{}) (stopped <-chan struct{}) {
	started, ended := make(chan struct{}), make(chan struct{})
	go leaks(started, stop, ended)
	<-started
	return ended
}

func leaks(started chan<- struct{}, stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	close(started)
	<-stop
}

// A goroutine that ends soon after the tests is not a leak.
func TestEndingGoroutineIsAwaited(t *testing.T) {
	stop := make(chan struct{})
	startLeak(stop)
	time.AfterFunc(50*time.Millisecond, func() { close(stop) })
	if stacks := left(10 * time.Second); len(stacks) > 0 {
		t.Errorf("found %q, want nothing", stacks)
	}
}
