// Package leak finds goroutines that tests have left behind. It needs only the standard library. Packages that every
// user imports use it instead of go.uber.org/goleak, which their tests would add to the module graph of every user.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines may take to end, on a machine that may stand still for some seconds.
const patience = 5 * time.Second

// harmless are functions in the stacks of goroutines that belong to the test runner or the Go runtime.
var harmless = []string{"testing.(*M).", "testing.tRunner(", "os/signal.loop(", "os/signal.signal_recv(",
	"runtime.ensureSigM("}

// VerifyTestMain runs the tests of m and exits. If they pass but goroutines remain some seconds later, it prints their
// stacks and exits with 1.
func VerifyTestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if stacks := left(patience); len(stacks) > 0 {
			fmt.Fprintf(os.Stderr, "leak: %d goroutines are left after the tests:\n\n%s\n", len(stacks),
				strings.Join(stacks, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// left waits until no other goroutine runs, patience at most. It returns the stacks of those that remain, except
// harmless ones.
func left(patience time.Duration) (stacks []string) {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 100) {
		if stacks = others(); len(stacks) == 0 || time.Now().After(end) {
			return stacks
		}
	}
}

// others returns the stacks of all goroutines except the caller's and harmless ones.
func others() (stacks []string) {
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	all := strings.Split(strings.TrimSpace(string(buf[:n])), "\n\n")
	for _, stack := range all[1:] { // the first stack is the caller's
		if !isHarmless(stack) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

func isHarmless(stack string) bool {
	for _, function := range harmless {
		if strings.Contains(stack, "\n"+function) {
			return true
		}
	}
	return false
}
