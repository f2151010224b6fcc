package locktests

import (
	"cmp"
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

// A sharedStore is a store that several processes can use, through its URL.
type sharedStore struct {
	name string
	many int // number of leases of one Locker in a test of many leases
}

func (s sharedStore) start(t *testing.T) (url string, nodes []*servers.Server) {
	t.Helper()
	return servers.Store(t, s.name)
}

// onStores runs f on every shared store.
func onStores(t *testing.T, f func(t *testing.T, s sharedStore)) {
	many := map[string]int{"file": 10_000, "redis": 10_000, "postgres": 24}
	for _, name := range servers.SharedStores {
		t.Run(name, func(t *testing.T) { f(t, sharedStore{name, cmp.Or(many[name], 500)}) })
	}
}
