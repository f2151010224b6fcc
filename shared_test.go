package lock_test

import (
	"strings"
	"testing"

	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/servers"
	_ "github.com/anylock/lock/memcached"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/redis/redlock"
	_ "github.com/anylock/lock/zookeeper"
)

// A sharedStore is one that other processes can use too, through its URL.
type sharedStore struct {
	name  string
	many  int // leases that one Locker may hold at once, for a test of many
	start func(t *testing.T) (url string, nodes []*servers.Server)
}

var sharedStores = []sharedStore{
	{"file", 10_000, func(t *testing.T) (string, []*servers.Server) { return "file://" + t.TempDir(), nil }},
	{"redis", 10_000, func(t *testing.T) (string, []*servers.Server) {
		s := servers.Redis(t)
		return "redis://" + s.Addr, []*servers.Server{s}
	}},
	{"redlock", 500, startRedlock},
	{"etcd", 500, func(t *testing.T) (string, []*servers.Server) {
		s := servers.Etcd(t)
		return "etcd://" + s.Addr, []*servers.Server{s}
	}},
	{"zookeeper", 500, func(t *testing.T) (string, []*servers.Server) {
		s := servers.ZooKeeper(t)
		return "zookeeper://" + s.Addr, []*servers.Server{s}
	}},
	{"postgres", 24, func(t *testing.T) (string, []*servers.Server) {
		s := servers.Postgres(t)
		return s.PostgresURL(), []*servers.Server{s}
	}},
	{"memcached", 500, func(t *testing.T) (string, []*servers.Server) {
		s := servers.Memcached(t)
		return "memcached://" + s.Addr, []*servers.Server{s}
	}},
}

// startRedlock starts three nodes and lets them vote at once, as docs/redlock.md says for a new fleet.
func startRedlock(t *testing.T) (string, []*servers.Server) {
	const nodes = 3
	var (
		list  []*servers.Server
		addrs []string
	)
	for range nodes {
		s := servers.Redis(t)
		servers.RedisSet(t, s, "anylock:redlock:birth", "new")
		list, addrs = append(list, s), append(addrs, s.Addr)
	}
	return "redis+redlock://" + strings.Join(addrs, ","), list
}

// onStores runs f on every shared store.
func onStores(t *testing.T, f func(t *testing.T, s sharedStore)) {
	for _, s := range sharedStores {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

func startStore(t *testing.T, name string) (url string, nodes []*servers.Server) {
	t.Helper()
	for _, s := range sharedStores {
		if s.name == name {
			return s.start(t)
		}
	}
	t.Fatalf("there is no store %s", name)
	return "", nil
}
