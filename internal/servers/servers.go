// Package servers starts the servers that a test needs and stops them when the test ends.
//
// A server comes from, in this order: an address given in the environment (only where a test does not break its
// server), a program on this machine. A test that finds neither is skipped with a line that says why, or fails if
// [RequireEnv] is set to 1, as "make test" does.
//
// Servers listen on 127.0.0.1 only, keep their data in the test's temporary folder, log into a file that is shown when
// the test fails, and die with the test process on Linux.
package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// RequireEnv names the environment variable that turns a skipped test into a failed one, if it is 1.
const RequireEnv = "ANYLOCK_TEST_REQUIRE"

// startTimeout bounds the time until a started server answers.
const startTimeout = 30 * time.Second

// A Server is one server process that belongs to one test. Freeze, Thaw, Kill and Start report failures to the
// test.
type Server struct {
	Addr string // host:port that clients dial
	Dir  string // the server's folder

	t     testing.TB
	kind  string
	node  node
	ready func(ctx context.Context, s *Server) error // asks the server once, by its own protocol
	skew  time.Duration                              // of its wall clock, since the last start
	empty func(s *Server) error                      // makes what it keeps as new; nil where that is out of reach
}

// A node is the process, or the family of processes, that runs a server.
type node interface {
	start() error
	signal(sig signal) error
	// kill ends it at once and waits until it has ended. It may be started again.
	kill() error
	// exited is closed when what the last start began has ended.
	exited() <-chan struct{}
	pid() int // 0 before the first start
	log() string
	// remove frees what is left after the last kill.
	remove() error
}

// A signal is what all kinds of nodes understand.
type signal string

const (
	sigStop signal = "SIGSTOP"
	sigCont signal = "SIGCONT"
)

// Freeze stops the server from running without closing its connections, as a long pause of its host does.
func (s *Server) Freeze() {
	s.t.Helper()
	s.check("freeze", s.node.signal(sigStop))
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() {
	s.t.Helper()
	s.check("thaw", s.node.signal(sigCont))
}

// Kill ends the server without warning (SIGKILL) and returns when it has ended.
func (s *Server) Kill() {
	s.t.Helper()
	s.check("kill", s.node.kill())
}

// Start starts a killed server again, on the same address and folder, and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.startAndWait(); err != nil {
		s.t.Fatalf("servers: start %s %s again: %v\n%s", s.kind, s.Addr, err, tail(s.node.log()))
	}
}

// RestartEmpty returns a function that kills the server and starts it again without its data, as when its disk was
// lost. It is nil for a server whose data the package does not know.
func (s *Server) RestartEmpty() func() {
	if s.empty == nil {
		return nil
	}
	return func() {
		s.t.Helper()
		s.Kill()
		s.check("empty", s.empty(s))
		s.Start()
	}
}

// without returns a launch.empty that removes what is named from the server's folder.
func without(names ...string) func(s *Server) error {
	return func(s *Server) (err error) {
		for _, name := range names {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, name)))
		}
		return err
	}
}

func (s *Server) check(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("servers: %s %s %s: %v", what, s.kind, s.Addr, err)
	}
}

// startAndWait starts the node and waits until the server answers.
func (s *Server) startAndWait() error {
	s.skew = 0
	if err := s.node.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return until(ctx, s.node.exited(), func(ctx context.Context) error { return s.ready(ctx, s) })
}

// keep hands s over to the test: its end stops the server, and shows the log if the test has failed.
func (s *Server) keep() *Server {
	s.t.Cleanup(func() {
		s.check("kill", s.node.kill())
		if s.t.Failed() {
			s.t.Logf("log of %s %s:\n%s", s.kind, s.Addr, tail(s.node.log()))
		}
		s.check("remove", s.node.remove())
	})
	return s
}

// Missing ends a test that lacks what it needs on this machine, with the reason: skipped, or failed if RequireEnv is 1.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf("servers: %s (%s=1 forbids to skip)", why, RequireEnv)
	}
	t.Skipf("servers: %s", why)
}

// until calls try until it succeeds, ctx ends, or gone is closed, and bounds each call.
func until(ctx context.Context, gone <-chan struct{}, try func(ctx context.Context) error) error {
	const pause, once = 10 * time.Millisecond, 2 * time.Second
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		tctx, cancel := context.WithTimeout(ctx, once)
		err := try(tctx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("it has ended (last answer: %w)", err)
		case <-ctx.Done():
			return fmt.Errorf("it is not ready in time (last answer: %w)", err)
		case <-tick.C:
		}
	}
}

// tail returns the last lines of a log.
func tail(log string) string {
	const most = 8 << 10
	if len(log) <= most {
		return log
	}
	log = log[len(log)-most:]
	_, log, _ = strings.Cut(log, "\n")
	return "…\n" + log
}
