package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/memory"
)

// parentVariable makes this program start a process and wait to be killed.
const parentVariable = "ANYLOCK_TEST_PARENT"

func TestMain(m *testing.M) {
	process.Main(func(_ context.Context, arg string) (backend.Backend, error) {
		fmt.Println("what others print comes not between the answers")
		switch arg {
		case "broken":
			return nil, fmt.Errorf("%w: as asked", backend.ErrInvalid)
		case "mute":
			select {}
		}
		return memory.New(), nil
	})
	if os.Getenv(parentVariable) != "" {
		parent()
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, skew time.Duration) conformance.Process {
	t.Helper()
	self := process.Self("")
	if self == nil {
		t.Skip("no process can be frozen here")
	}
	p, err := self(t.Context(), skew)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func request(owner string, wait bool) backend.Request {
	return backend.Request{Key: "k\xff", Owner: owner, TTL: time.Minute, Wait: wait}
}

func begin(t *testing.T, p conformance.Process, r backend.Request) <-chan conformance.ProcessGrant {
	t.Helper()
	answered, err := p.Acquire(r)
	if err != nil {
		t.Fatal(err)
	}
	return answered
}

// none fails if there is an answer within 50 ms.
func none(t *testing.T, answered <-chan conformance.ProcessGrant, when string) {
	t.Helper()
	select {
	case g := <-answered:
		t.Fatalf("%s: %+v", when, g)
	case <-time.After(50 * time.Millisecond):
	}
}

// A shared request is also shared in the other process.
func TestSharedRequests(t *testing.T) {
	p := start(t, 0)
	shared := func(owner string) backend.Request {
		r := request(owner, false)
		r.Shared = true
		return r
	}
	if !memory.New().Guarantees().Shared {
		if g := <-begin(t, p, shared("a")); !errors.Is(g.Err, errors.ErrUnsupported) {
			t.Errorf("shared Acquire of a store without shared leases: %+v", g)
		}
		return
	}
	for _, owner := range []string{"a", "b"} {
		if g := <-begin(t, p, shared(owner)); g.Err != nil {
			t.Errorf("reader %s: %v", owner, g.Err)
		}
	}
	if g := <-begin(t, p, request("c", false)); !errors.Is(g.Err, backend.ErrHeld) {
		t.Errorf("writer beside readers: %+v", g)
	}
	if err := p.Release(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestRequests(t *testing.T) {
	p := start(t, 0)
	g := <-begin(t, p, request("a", false))
	if g.Err != nil || g.Token == 0 || g.Left < 50*time.Second || g.Left > time.Minute {
		t.Fatalf("%+v", g)
	}
	if g := <-begin(t, p, request("b", false)); !errors.Is(g.Err, backend.ErrHeld) || errors.Is(g.Err, backend.ErrLost) {
		t.Errorf("Acquire of a held key: %+v", g)
	}
	waits := begin(t, p, request("c", true))
	none(t, waits, "a waiter")
	ctx := t.Context()
	if err := p.Renew(ctx, "a", time.Hour); err != nil {
		t.Error(err)
	}
	if lost, err := p.Lost(ctx, "a"); lost || err != nil {
		t.Error(lost, err)
	}
	if err := p.Renew(ctx, "c", time.Hour); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Renew of an owner without a lease: %v", err)
	}
	if err := p.Release(ctx, "a"); err != nil {
		t.Error(err)
	}
	if next := <-waits; next.Err != nil || next.Token <= g.Token {
		t.Errorf("%+v after token %d", next, g.Token)
	}
	if err := p.Renew(ctx, "c", 50*time.Millisecond); err != nil && !errors.Is(err, backend.ErrLost) {
		t.Error(err)
	}
	for lost := false; !lost; {
		var err error
		if lost, err = p.Lost(ctx, "c"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Release(ctx, "c"); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Release of a lost lease: %v", err)
	}
}

func TestFrozenProcessDoesNothing(t *testing.T) {
	p := start(t, 0)
	held := <-begin(t, p, request("a", false))
	if held.Err != nil {
		t.Fatal(held.Err)
	}
	waits := begin(t, p, request("b", true))
	p.Freeze()
	released := make(chan error, 1)
	go func() { released <- p.Release(context.Background(), "a") }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.Lost(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lost in a frozen process: %v", err)
	}
	none(t, waits, "a waiter in a frozen process")
	p.Thaw()
	if err := <-released; err != nil {
		t.Error(err)
	}
	if g := <-waits; g.Err != nil {
		t.Error(g.Err)
	}
}

func TestKilledProcessAnswersNothing(t *testing.T) {
	p := start(t, 0)
	<-begin(t, p, request("a", false))
	waits := begin(t, p, request("b", true))
	p.Freeze() // a frozen process can be killed
	lost := make(chan error, 1)
	go func() {
		_, err := p.Lost(context.Background(), "a")
		lost <- err
	}()
	p.Kill()
	if g := <-waits; g.Err == nil {
		t.Error("a waiter was granted a lease in a process that is dead")
	}
	if err := <-lost; err == nil {
		t.Error("a dead process answers")
	}
	if _, err := p.Acquire(request("c", false)); err == nil {
		t.Error("a dead process begins an Acquire")
	}
	p.Kill()
}

func TestSkewedClock(t *testing.T) {
	for _, skew := range []time.Duration{time.Hour, -time.Hour} {
		p := start(t, skew)
		before := time.Now()
		now, err := p.Now(t.Context())
		if off := now.Sub(before) - skew; err != nil || off < 0 || off > time.Minute {
			t.Errorf("the clock shows %v at %v, want an error of %v (%v)", now, before, skew, err)
		}
		g := <-begin(t, p, request("a", false))
		if g.Err != nil || g.Left < 50*time.Second || g.Left > time.Minute {
			t.Errorf("a lease measured by the monotonic clock: %+v", g)
		}
	}
	p := start(t, 0)
	if now, err := p.Now(t.Context()); err != nil || time.Since(now) > time.Minute {
		t.Errorf("%v by a clock that is right: %v", now, err)
	}
}

func TestBadStarts(t *testing.T) {
	if process.Self("") == nil {
		t.Skip("no process can be frozen here")
	}
	if _, err := process.Self("broken")(t.Context(), 0); !errors.Is(err, backend.ErrInvalid) ||
		!strings.Contains(err.Error(), "as asked") {
		t.Errorf("a client that cannot be opened: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := process.Self("mute")(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a client that is never open: %v", err)
	}
}

// parent starts a process, reports that its client works, and hangs.
func parent() {
	p, err := process.Self("")(context.Background(), 0)
	if err == nil {
		_, err = p.Now(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

// A process ends with its parent. Its end closes the pipe that it has inherited.
func TestProcessDiesWithParent(t *testing.T) {
	if process.Self("") == nil {
		t.Skip("no process can be frozen here")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"=1")
	mine, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	cmd.Stderr = theirs // the process inherits this pipe from its parent
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("started"))
	if _, err := out.Read(line); err != nil || string(line) != "started" {
		t.Fatalf("%q %v", line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := mine.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 1<<10); err == nil; {
		_, err = mine.Read(b)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the process outlives its parent")
	}
}
