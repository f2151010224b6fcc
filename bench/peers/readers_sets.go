package peers

import (
	"context"
	"testing"
	"time"

	"github.com/anylock/lock/bench"
	"github.com/anylock/lock/internal/servers"
)

// readersHold is how long readers and writers hold a key where both contend.
const readersHold = time.Millisecond

// readersOptions are the options of sets with readers. The scenarios distinct and hand-off are the basis of comparison
// for the others.
func readersOptions() bench.Options {
	return bench.Options{
		Rounds: rounds, Duration: second, Hold: readersHold,
		Scenarios: []string{"distinct", "readers", "readers-writer", "readers-writers", "mixed", "hand-off"},
	}
}

// readersSets are the runs with readers and writers on one key.
var readersSets = []Set{
	{
		Name: "readers-redis", Title: "Redis, readers and writers", Options: readersOptions(),
		stores: redisPeers(RedisHash),
	},
	{
		Name: "readers-etcd", Title: "etcd, readers and writers", Options: readersOptions(),
		stores: func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
			s := servers.EtcdCurrent(t)
			o, err := our(ctx, "etcd://"+s.Addr, "etcd")
			if err != nil {
				return nil, "", err
			}
			server, err := etcdServer(ctx, s.Addr)
			return []bench.Store{o, EtcdRWMutex(s.Addr)}, server, err
		},
	},
	{
		Name: "readers-postgres", Title: "Postgres, fsync off, readers and writers", Options: readersOptions(),
		stores: func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
			s := servers.Postgres(t, "max_connections=500")
			o, err := our(ctx, s.PostgresURL(), "postgres")
			if err != nil {
				return nil, "", err
			}
			o.MaxLeases = pgConnections
			server, err := postgresServer(ctx, s.PostgresURL())
			return []bench.Store{o, BareAdvisory(s.PostgresURL())}, server, err
		},
	},
	{
		Name: "readers-zookeeper", Title: "ZooKeeper, readers and writers", Options: readersOptions(),
		stores: func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
			s := servers.ZooKeeper(t)
			o, err := our(ctx, "zookeeper://"+s.Addr, "zookeeper")
			if err != nil {
				return nil, "", err
			}
			server, err := zooKeeperServer(s.Addr)
			return []bench.Store{o}, server, err
		},
	},
	{
		Name: "readers-embedded", Title: "Without a server, readers and writers", Options: readersOptions(),
		stores: embedded,
	},
}

// readersTargets are the targets for readers and writers. A shared key costs at most a tenth of the rate. A writer in a
// stream of readers waits at most for their hold and three hand-offs. Writers have equal shares.
func readersTargets() (all []Target) {
	add := func(set, store string) {
		all = append(all,
			Target{Set: set, Store: store, Scenario: "readers", Measure: bench.Rate, Beside: "distinct", Want: 0.9},
			Target{Set: set, Store: store, Scenario: "readers-writer", Measure: bench.P99, Minus: readersHold.Seconds(),
				Beside: "hand-off", Want: 3, Most: true},
			Target{Set: set, Store: store, Scenario: "readers-writers", Measure: bench.Jain, Want: 0.99})
	}
	for _, set := range []string{"readers-redis", "readers-etcd", "readers-postgres", "readers-zookeeper"} {
		add(set, "")
	}
	add("readers-embedded", "memory")
	add("readers-embedded", "file")
	return all
}
