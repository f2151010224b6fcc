// Package servers starts the servers that a test needs and stops them when the test ends.
//
// The address of a server can come from the environment if the test does not break its server. Otherwise the package
// starts a program installed on this machine. A test that finds neither is skipped with the reason, or fails if
// [RequireEnv] is set to 1, as "make test" does.
//
// Servers listen on 127.0.0.1 only, and keep their data in the test's temporary folder. They log into a file, which is
// shown if the test fails. On Linux they die with the test process.
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

// startTimeout limits the time until a started server responds. On a busy machine, Java has taken more than 30 s.
const startTimeout = 90 * time.Second

// A Server is one server process that belongs to one test. Freeze, Thaw, Kill and Start report failures to the
// test.
type Server struct {
	Addr string // host:port that clients dial
	Dir  string // the server's folder

	t     testing.TB
	kind  string
	node  node
	ready func(ctx context.Context, s *Server) error // one attempt to check that the server is ready, in its own protocol
	skew  time.Duration                              // of its wall clock, since the last start
	empty func(s *Server) error                      // deletes the server's data; nil if the package does not know them
}

// A node is the process, or the family of processes, that runs a server.
type node interface {
	start() error
	signal(sig signal) error
	// kill kills the node and waits until it has ended. The node may be started again.
	kill() error
	// exited returns a channel that is closed when the last started process has ended.
	exited() <-chan struct{}
	pid() int // 0 before the first start
	log() string
	// remove frees the remaining resources after the last kill.
	remove() error
}

// A signal is a signal that all kinds of nodes support.
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

// Thaw continues a frozen server.
func (s *Server) Thaw() {
	s.t.Helper()
	s.check("thaw", s.node.signal(sigCont))
}

// Kill kills the server without warning (SIGKILL) and returns when it has ended.
func (s *Server) Kill() {
	s.t.Helper()
	s.check("kill", s.node.kill())
}

// Start restarts a killed server with the same address and folder, and returns when it responds.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.startAndWait(); err != nil {
		s.t.Fatalf("servers: start %s %s again: %v\n%s", s.kind, s.Addr, err, tail(s.node.log()))
	}
}

// RestartEmpty returns a function that kills the server and restarts it without its data, as if its disk was lost. It
// returns nil if the package does not know the server's data.
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

// without returns a launch.empty that removes names from the server's folder.
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

// startAndWait starts the node and waits until the server responds.
func (s *Server) startAndWait() error {
	s.skew = 0
	if err := s.node.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return until(ctx, s.node.exited(), func(ctx context.Context) error { return s.ready(ctx, s) })
}

// keep registers a cleanup with the test. The cleanup stops the server, and shows the log if the test has failed.
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

// Missing skips a test that needs something that this machine lacks, and reports the reason. It fails the test if
// RequireEnv is 1.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf("servers: %s (%s=1 forbids to skip)", why, RequireEnv)
	}
	t.Skipf("servers: %s", why)
}

// until calls try until it succeeds, ctx ends, or gone is closed. It limits the time of each call.
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
