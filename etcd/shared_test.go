package etcd

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anylock/lock/internal/servers"
)

// A site is where one test keeps its locks: a server, and a namespace that no other test has.
type site struct {
	*servers.Server
	namespace string
}

// shared returns a site on the server that the package's tests share, for tests that neither break it nor count what is on it.
func shared(t testing.TB) site {
	t.Helper()
	return site{common.start(t), fmt.Sprint("test-", sites.Add(1))}
}

// private returns a site on a server of the test's own.
func private(t testing.TB, args ...string) site {
	t.Helper()
	return site{servers.Etcd(t, args...), defaultNamespace}
}

func (s site) URL() string { return s.via(s.Addr) }

// via is the URL of the site behind a proxy.
func (s site) via(addr string) string { return "etcd://" + addr + "/" + s.namespace }

func (s site) options() *Options { return &Options{Namespace: s.namespace} }

var (
	common commonServer
	sites  atomic.Int64
)

// A commonServer lives from the first test that asks for it to the end of all.
type commonServer struct {
	mu       sync.Mutex
	server   *servers.Server
	cleanups []func()
	failed   atomic.Bool
}

// A lender is the test that starts the common server, but what it leaves to be cleaned up is left to the end of all tests.
type lender struct {
	testing.TB
	of *commonServer
}

func (l lender) Cleanup(f func()) { l.of.cleanups = append(l.of.cleanups, f) }
func (l lender) Failed() bool     { return l.of.failed.Load() }

func (l lender) TempDir() string {
	dir, err := os.MkdirTemp("", "anylock-etcd-")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (l lender) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...) // the test may be over
}

func (l lender) Errorf(format string, args ...any) {
	l.of.failed.Store(true)
	l.Logf(format, args...)
}

func (c *commonServer) start(t testing.TB) *servers.Server {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		c.server = servers.Etcd(lender{t, c})
	}
	return c.server
}

// allTests is for goleak: the tests, and then the end of the common server.
type allTests struct{ m *testing.M }

func (a allTests) Run() int {
	code := a.m.Run()
	common.failed.Store(code != 0)
	for i := len(common.cleanups) - 1; i >= 0; i-- {
		common.cleanups[i]()
	}
	if code == 0 && common.failed.Load() {
		code = 1
	}
	return code
}
