//go:build unix

package conformance_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/storetest"
)

// A suspended is a client of a correct store that stops its own process once, in an Acquire whose context ends soon.
type suspended struct {
	*client
	frozen bool          // stop while the store is frozen; if false, stop in one of many calls
	asked  *atomic.Int64 // number of calls in which it might have stopped
}

func (c suspended) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	const many = 20
	deadline, ends := ctx.Deadline()
	switch {
	case !ends || time.Until(deadline) > 2*time.Second:
	case c.frozen && c.server.frozen.Load() && c.asked.Add(1) == 1, !c.frozen && c.asked.Add(1) == many:
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	return c.client.Acquire(ctx, r)
}

// TestStoppedProcessIsNotLate runs checks in child processes that are stopped, as by Ctrl-Z, for longer than a call may
// take. The checks must pass.
func TestStoppedProcessIsNotLate(t *testing.T) {
	const variable = "ANYLOCK_TEST_STOPS_IN"
	if check := os.Getenv(variable); check != "" {
		s := newServer("")
		defer close(s.stop)
		h, asked := s.harness(), new(atomic.Int64)
		h.Open = func(context.Context) (backend.Backend, error) {
			return suspended{newClient(s), check == "FrozenStoreHonoursContext", asked}, nil
		}
		results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: only(check)})
		if err != nil || results[0].Status != conformance.Pass {
			t.Errorf("%+v, error %v", results, err)
		}
		return
	}
	storetest.Long(t, "a process is stopped for eight seconds")
	const stop = 8 * time.Second // longer than checks allow calls to be late, after a TTL of little more than a second
	children := []*stoppedChild{
		startStopped(t, variable+"=FrozenStoreHonoursContext"), startStopped(t, variable+"=HistoryUnderLinkFaults"),
	}
	continued := time.Now().Add(stop)
	t.Parallel()                      // other tests run meanwhile
	time.Sleep(time.Until(continued)) // sleeps: the length of the stop is what is tested
	for _, c := range children {
		c.mustPass(t)
	}
}

// A stoppedChild is a child process that runs TestStoppedProcessIsNotLate, and has stopped itself.
type stoppedChild struct {
	*exec.Cmd
	output bytes.Buffer
}

// startStopped starts a child with a variable in its environment, and returns once the child has stopped.
func startStopped(t *testing.T, variable string) *stoppedChild {
	t.Helper()
	c := &stoppedChild{Cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")}
	c.Env = append(os.Environ(), variable)
	c.Stdout, c.Stderr = &c.output, &c.output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%s: the child has not stopped: %v, error %v\n%s", variable, status, err, c.output.String())
	}
	return c
}

// mustPass continues the child and fails the test if the child fails.
func (c *stoppedChild) mustPass(t *testing.T) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", c.Env[len(c.Env)-1], err, c.output.String())
	}
}
