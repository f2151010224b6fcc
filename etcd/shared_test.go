package etcd

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/anylock/lock/internal/servers"
)

// A site is the server and the namespace that one test uses for its locks. No other test uses the same pair.
type site struct {
	*servers.Server
	namespace string
}

// shared returns a site on the server that the package's tests share. Such a test must not stop the server, or count
// everything on it.
func shared(t testing.TB) site {
	t.Helper()
	return site{common.Get(t), fmt.Sprint("test-", sites.Add(1))}
}

// private returns a site on a server that only this test uses.
func private(t testing.TB, args ...string) site {
	t.Helper()
	return site{servers.Etcd(t, args...), defaultNamespace}
}

func (s site) URL() string { return s.via(s.Addr) }

// via returns the URL of the site through addr, for example the address of a proxy.
func (s site) via(addr string) string { return "etcd://" + addr + "/" + s.namespace }

func (s site) options() *Options { return &Options{Namespace: s.namespace} }

var (
	common = servers.Shared{Start: func(t testing.TB) *servers.Server { return servers.Etcd(t) }}
	sites  atomic.Int64
)
