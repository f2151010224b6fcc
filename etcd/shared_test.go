package etcd

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/anylock/lock/internal/servers"
)

// A site is where one test keeps its locks: a server, and a namespace that no other test has.
type site struct {
	*servers.Server
	namespace string
}

// shared returns a site on the server that the package's tests share, for tests that neither break it nor count what is
// on it.
func shared(t testing.TB) site {
	t.Helper()
	return site{common.Get(t), fmt.Sprint("test-", sites.Add(1))}
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
	common = servers.Shared{Start: func(t testing.TB) *servers.Server { return servers.Etcd(t) }}
	sites  atomic.Int64
)
