package conformance_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// TestRunInBubbleReportsBrokenStores runs the suite in a bubble, in a child process, on stores whose goroutines never
// end. Their checks fail, the other checks are still reported, and the process does not panic.
func TestRunInBubbleReportsBrokenStores(t *testing.T) {
	t.Parallel()
	const child = "ANYLOCK_TEST_BROKEN_IN_BUBBLE"
	if bug := os.Getenv(child); bug != "" {
		conformance.RunInBubble(t, func(*testing.T) conformance.Harness {
			s := newServer(bug) // never stopped
			return conformance.Harness{Open: func(context.Context) (backend.Backend, error) { return newClient(s), nil }}
		})
		return
	}
	const shares = "ClientsShareStore" // passes on all these stores
	for bug, test := range map[string]struct {
		checks string // few, so that the checks that hang do not keep the others from starting
		want   []string
	}{
		"release leaves waiters parked": {"WaiterGetsReleasedKey|WaiterGetsExpiredKey", []string{
			"--- FAIL: " + t.Name() + "/waiting/WaiterGetsReleasedKey",
		}},
		"wait ignores the context": {"CancelledWhileWaiting|CancelledWaiterDelaysNextBriefly|CancelRacesGrant", []string{
			"--- FAIL: " + t.Name() + "/cancel/CancelledWhileWaiting", "blocked goroutines remain", "goroutines of ",
			"client_acquire_test.go",
		}},
		"Close leaves a goroutine": {"CloseLeaksNoGoroutine|CloseEndsLeases", []string{
			"--- FAIL: " + t.Name() + "/close/CloseLeaksNoGoroutine", "blocked goroutines remain",
		}},
	} {
		t.Run(bug, func(t *testing.T) {
			checks := "/^(exclusion|waiting|cancel|close)$/^(" + shares + "|" + test.checks + ")$"
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v",
				"-test.run=^TestRunInBubbleReportsBrokenStores$"+checks)
			cmd.Env = append(os.Environ(), child+"="+bug)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the suite passes")
			}
			for _, line := range append(test.want, "--- PASS: TestRunInBubbleReportsBrokenStores/exclusion/"+shares) {
				if !strings.Contains(string(out), line) {
					t.Errorf("no %q in\n%.6000s", line, out)
				}
			}
			if strings.Contains(string(out), "\npanic: ") {
				t.Errorf("the process panicked:\n%.6000s", out)
			}
		})
	}
}
