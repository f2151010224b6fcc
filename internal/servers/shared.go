package servers

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// A Shared is one server for all tests of a package that do not disturb it. Each test uses its own namespace. The first
// test starts the server, which lives until the last test has ended. TestMain must run the tests by [Sharing].
type Shared struct {
	// Start starts the server, as in servers.Memcached.
	Start func(t testing.TB) *Server

	mu     sync.Mutex
	server *Server
}

// Get returns the server, and shows its log if t fails. Tests must not freeze, kill or configure the server.
func (s *Shared) Get(t testing.TB) *Server {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		s.server = s.Start(packageEnd.outlives(t))
	}
	server := s.server
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s %s:\n%s", server.kind, server.Addr, tail(server.node.log()))
		}
	})
	return server
}

// Sharing wraps m for a package with a Shared, and ends the servers after the tests. Because tests mostly wait, it runs
// testsAtOnce tests in parallel, unless -parallel is given.
func Sharing(m *testing.M) *SharingM { return &SharingM{m} }

// A SharingM is a testing.M, see [Sharing].
type SharingM struct{ m *testing.M }

const testsAtOnce = 8

// Run runs the tests and returns the exit code.
func (s *SharingM) Run() int {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", fmt.Sprint(testsAtOnce)); err != nil {
			panic(err)
		}
	}
	code := s.m.Run()
	if failed := packageEnd.run(); failed && code == 0 {
		code = 1
	}
	return code
}

// packageEnd contains the cleanups to run after the last test.
var packageEnd lasting

type lasting struct {
	mu       sync.Mutex
	cleanups []func()
	failed   bool
}

// outlives returns t for a server that outlives it. Cleanups run after the last test. Fatal and Skip still end t.
func (l *lasting) outlives(t testing.TB) testing.TB { return &lastingTB{t, l} }

// run runs the cleanups, the latest first, and reports whether one has failed.
func (l *lasting) run() (failed bool) {
	l.mu.Lock()
	list := l.cleanups
	l.cleanups = nil
	l.mu.Unlock()
	for _, f := range slices.Backward(list) {
		f()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

type lastingTB struct {
	testing.TB
	l *lasting
}

func (t *lastingTB) Helper() {}

func (t *lastingTB) Cleanup(f func()) {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.l.cleanups = append(t.l.cleanups, f)
}

func (t *lastingTB) TempDir() string {
	dir, err := os.MkdirTemp("", "anylock-shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("%v", err)
		}
	})
	return dir
}

func (t *lastingTB) Failed() bool {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	return t.l.failed
}

func (t *lastingTB) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (t *lastingTB) Errorf(format string, args ...any) {
	t.Logf(format, args...)
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.l.failed = true
}
