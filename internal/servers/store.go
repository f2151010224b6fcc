package servers

import (
	"strings"
	"testing"
)

// SharedStores are the names of the stores that several processes can use.
var SharedStores = []string{"file", "redis", "redlock", "etcd", "zookeeper", "postgres", "memcached"}

// Store starts the servers of one of SharedStores in the simplest setup, and returns the URL and the servers. The
// servers belong to the test. Redlock's three nodes may vote at once, as docs/redlock.md describes for a new fleet.
func Store(t testing.TB, name string) (url string, list []*Server) {
	t.Helper()
	one := func(scheme string, start func(t testing.TB, args ...string) *Server) (string, []*Server) {
		s := start(t)
		return scheme + "://" + s.Addr, []*Server{s}
	}
	switch name {
	case "file":
		return "file://" + t.TempDir(), nil
	case "redis":
		return one(name, Redis)
	case "etcd":
		return one(name, Etcd)
	case "zookeeper":
		return one(name, ZooKeeper)
	case "memcached":
		return one(name, Memcached)
	case "postgres":
		s := Postgres(t)
		return s.PostgresURL(), []*Server{s}
	case "redlock":
		const nodes = 3
		var addrs []string
		for range nodes {
			s := Redis(t)
			RedisSet(t, s, "anylock:redlock:birth", "new")
			list, addrs = append(list, s), append(addrs, s.Addr)
		}
		return "redis+redlock://" + strings.Join(addrs, ","), list
	}
	t.Fatalf("servers: there is no store %s", name)
	return "", nil
}
