package kubernetes_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/anylock/lock"
	"github.com/anylock/lock/adapters/kubernetes"
	"github.com/anylock/lock/internal/adaptertest"
)

// childURL makes the program a candidate on the store that it names.
const childURL = "ANYLOCK_TEST_CANDIDATE"

const key = "scheduler"

func TestMain(m *testing.M) {
	quietly := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(quietly)
	_ = quietly.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"})
	klog.SetOutput(io.Discard)
	if url := os.Getenv(childURL); url != "" {
		beCandidate(url)
		return
	}
	adaptertest.Main(m)
}

// Times are an elector's, in the proportions of client-go's defaults.
type times struct{ lease, deadline, retry time.Duration }

var (
	usual = times{15 * time.Second, 10 * time.Second, 2 * time.Second} // of Kubernetes
	quick = times{4 * time.Second, 3 * time.Second, 100 * time.Millisecond}
)

// mostBetween is how long an elector waits for its next try to lead.
func (c times) mostBetween() time.Duration {
	return time.Duration(float64(c.retry) * (1 + leaderelection.JitterFactor))
}

// A candidate is a running elector, and what it reports.
type candidate struct {
	lock    *kubernetes.Lock
	cancel  context.CancelCauseFunc // of Run's context
	ctx     context.Context
	started chan *lock.Lease // when it leads; nil if the lease is gone already
	stopped chan time.Time   // at OnStoppedLeading
	leaders chan string      // OnNewLeader
}

// run starts an elector on a lock. ctx is Run's, which cancel ends.
func run(
	ctx context.Context, cancel context.CancelCauseFunc, l *kubernetes.Lock, c times, release bool,
) (*candidate, error) {
	ca := &candidate{
		lock: l, cancel: cancel, ctx: ctx,
		started: make(chan *lock.Lease, 1), stopped: make(chan time.Time, 1), leaders: make(chan string, 100),
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: c.lease, RenewDeadline: c.deadline, RetryPeriod: c.retry, ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { ca.started <- l.Lease() },
			OnStoppedLeading: func() { ca.stopped <- time.Now() },
			OnNewLeader:      func(id string) { ca.leaders <- id },
		},
	})
	if err != nil {
		return nil, err
	}
	go elector.Run(ctx)
	return ca, nil
}

// newCandidate is a candidate whose context ends with its lease, and with the test.
func newCandidate(t *testing.T, locks *lock.Locker, identity string, c times, release bool) *candidate {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	l, err := kubernetes.New(locks, key, identity, cancel)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, ctx, cancel, l, c, release)
}

func start(
	t *testing.T, ctx context.Context, cancel context.CancelCauseFunc, l *kubernetes.Lock, c times, release bool,
) *candidate {
	t.Helper()
	ca, err := run(ctx, cancel, l, c, release)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(nil) })
	return ca
}

// leads waits until the candidate does.
func (c *candidate) leads(t *testing.T, within time.Duration) *lock.Lease {
	t.Helper()
	select {
	case l := <-c.started:
		if l == nil {
			t.Fatalf("%s leads without a lease", c.lock.Identity())
		}
		return l
	case <-time.After(within):
		t.Fatalf("%s does not lead within %v", c.lock.Identity(), within)
		return nil
	}
}

// stops waits for OnStoppedLeading.
func (c *candidate) stops(t *testing.T, within time.Duration) time.Time {
	t.Helper()
	select {
	case at := <-c.stopped:
		return at
	case <-time.After(within):
		t.Fatalf("%s has not stopped leading within %v", c.lock.Identity(), within)
		return time.Time{}
	}
}

// beCandidate runs a candidate with quick times until standard input closes, and prints what happens to it.
func beCandidate(url string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // as if killed
	}()
	check := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	locks, err := lock.Open(ctx, url)
	check(err)
	l, err := kubernetes.New(locks, key, "child", cancel)
	check(err)
	c, err := run(ctx, cancel, l, quick, false)
	check(err)
	fmt.Println("leads", (<-c.started).Token())
	<-c.stopped
	fmt.Println("stopped", context.Cause(ctx))
	select {}
}

// A child is another process with a candidate.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func newChild(t *testing.T, url string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+url)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{t, cmd, bufio.NewScanner(stdout)}
}

// says reads the next line, which must begin with word, and returns the rest.
func (c *child) says(word string) string {
	c.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	c.lines.Scan()
	rest, ok := strings.CutPrefix(c.lines.Text(), word)
	if !ok {
		c.t.Fatalf("the child says %q (%v), want %q", c.lines.Text(), c.lines.Err(), word)
	}
	return strings.TrimSpace(rest)
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}
