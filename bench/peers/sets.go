package peers

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/anylock/lock/bench"
	"github.com/anylock/lock/internal/servers"
)

// A Set is one run: the stores on one server, and the options of the measurement.
type Set struct {
	Name    string
	Title   string
	Options bench.Options // without stores

	// stores starts the server, and returns the stores and a description of the server.
	stores func(ctx context.Context, t testing.TB) (stores []bench.Store, server string, err error)
}

// ours is the name of our own stores in reports.
const ours = "anylock"

// our returns our store for url, under the name ours.
func our(ctx context.Context, url, settings string) (bench.Store, error) {
	s, err := bench.URL(ctx, url)
	s.Name = ours
	s.About = "package lock, " + settings
	return s, err
}

func redisPeers(
	peers ...func(addr string) bench.Store,
) func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
	return func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
		s := servers.Redis(t)
		o, err := our(ctx, "redis://"+s.Addr, "redis: fencing token, first come first served, renewal, at most 16 "+
			"hand-offs in a row")
		all := []bench.Store{o}
		for _, p := range peers {
			all = append(all, p(s.Addr))
		}
		if err != nil {
			return nil, "", err
		}
		server, err := redisServer(ctx, s.Addr)
		return all, server, err
	}
}

func tablePeers(
	peers ...func(url string) bench.Store,
) func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
	return func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
		s := servers.Postgres(t, "max_connections=500")
		o, err := our(ctx, tableURL(s.PostgresURL()),
			"postgres+table: lease, fencing token, renewal, at most 16 hand-offs in a row")
		if err != nil {
			return nil, "", err
		}
		all := []bench.Store{o}
		for _, p := range peers {
			all = append(all, p(s.PostgresURL()))
		}
		server, err := postgresServer(ctx, s.PostgresURL())
		return all, server, err
	}
}

const (
	second = time.Second
	rounds = 5
)

// Sets lists the runs.
var Sets = slices.Concat([]Set{
	{
		Name: "redis", Title: "Redis",
		Options: bench.Options{
			Rounds: rounds, Duration: second, Scenarios: []string{"serial", "distinct-8", "distinct", "distinct-256",
				"hot-local", "hot-single", "hand-off", "try", "recovery", "waiters"},
			Waiters: []int{10, 100},
		},
		stores: redisPeers(Bare, Redsync, Redislock, Rueidislock),
	},
	{
		Name: "redis-64x1", Title: "Redis, one key: 64 clients with one worker each, held for 1 ms",
		Options: bench.Options{
			Rounds: rounds, Duration: 3 * second, Scenarios: []string{"hot-clients"}, Clients: 64, Workers: 1,
			Hold: time.Millisecond,
		},
		stores: redisPeers(Redsync, Redislock, Rueidislock),
	},
	{
		Name: "redis-8x8", Title: "Redis, one key: 8 clients with 8 workers each, held for 1 ms",
		Options: bench.Options{
			Rounds: rounds, Duration: 3 * second, Scenarios: []string{"hot-clients"}, Clients: 8, Workers: 8,
			Hold: time.Millisecond,
		},
		stores: redisPeers(Redsync, Redislock, Rueidislock),
	},
	{
		Name: "redis-held", Title: "Redis: 10 000 leases held, TTL 10 s",
		Options: bench.Options{
			// the scenario held runs in every other round
			Rounds: 2*rounds - 1, Duration: 5 * second, Scenarios: []string{"held"}, Held: 10_000, TTL: 10 * second,
		},
		stores: redisPeers(Redsync, Rueidislock),
	},
	{
		Name: "redlock", Title: "Redlock on three servers",
		Options: bench.Options{
			Rounds: rounds, Duration: second, Scenarios: []string{"serial", "distinct-8", "distinct-32", "distinct", "try"},
		},
		stores: redlockPeers,
	},
	{
		Name: "etcd", Title: "etcd",
		Options: bench.Options{
			Rounds: rounds, Duration: second, Scenarios: []string{"serial", "distinct", "hot-local", "hot-clients", "hot-single",
				"hand-off", "try"}, Hold: -1,
		},
		stores: func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
			s := servers.EtcdCurrent(t)
			o, err := our(ctx, "etcd://"+s.Addr, "etcd: fencing token, first come first served, renewal, at most 16 "+
				"hand-offs in a row")
			if err != nil {
				return nil, "", err
			}
			server, err := etcdServer(ctx, s.Addr)
			return []bench.Store{o, EtcdMutex(s.Addr)}, server, err
		},
	},
	{
		Name: "zookeeper", Title: "ZooKeeper",
		Options: bench.Options{
			Rounds: rounds, Duration: second, Scenarios: []string{"serial", "distinct", "hot-local", "hot-clients", "hot-single",
				"hand-off"}, Hold: -1,
		},
		stores: func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
			s := servers.ZooKeeper(t)
			o, err := our(ctx, "zookeeper://"+s.Addr,
				"zookeeper: fencing token, first come first served, renewal, at most 16 hand-offs in a row")
			if err != nil {
				return nil, "", err
			}
			server, err := zooKeeperServer(s.Addr)
			return []bench.Store{o, ZKLock(s.Addr)}, server, err
		},
	},
	{
		Name: "postgres", Title: "Postgres, fsync off",
		Options: bench.Options{
			Rounds: rounds, Duration: second, Scenarios: []string{"serial", "distinct", "hot-local", "hot-clients", "hand-off",
				"try"}, Hold: -1, Clients: 4,
		},
		stores: func(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
			s := servers.Postgres(t, "max_connections=500")
			o, err := our(ctx, s.PostgresURL(), "postgres: lease, fencing token, first come first served, renewal, at most 16 "+
				"hand-offs in a row")
			if err != nil {
				return nil, "", err
			}
			o.MaxLeases = pgConnections // like the peers: here no store needs connections for waiters
			server, err := postgresServer(ctx, s.PostgresURL())
			return []bench.Store{o, BareAdvisory(s.PostgresURL()), PGLock(s.PostgresURL())}, server, err
		},
	},
	{
		Name: "table", Title: "A table of Postgres, fsync off",
		Options: bench.Options{
			Rounds: rounds, Duration: second, Scenarios: []string{"serial", "distinct-8", "distinct", "hot-local", "try"},
			Hold: -1,
		},
		stores: tablePeers(BareUpsert, RiverLeader, PGLock),
	},
	{
		Name: "table-held", Title: "A table of Postgres: 10 000 leases held, TTL 10 s",
		Options: bench.Options{
			Rounds: rounds, Duration: 5 * second, Scenarios: []string{"held"}, Held: 10_000, TTL: 10 * second,
		},
		stores: tablePeers(BareUpsert),
	},
	{
		Name: "embedded", Title: "Without a server",
		Options: bench.Options{
			Rounds: rounds, Duration: second, Scenarios: []string{"serial", "distinct", "hot-local", "hot-clients", "hand-off",
				"try", "recovery"}, Hold: -1,
		},
		stores: embedded,
	},
}, readersSets)

// embedded returns our stores without a server.
func embedded(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
	memory, err := bench.URL(ctx, "memory://peers")
	if err != nil {
		return nil, "", err
	}
	memory.About = "package lock, memory"
	file, err := bench.URL(ctx, "file://"+t.TempDir())
	file.About = "package lock, file: a folder in the temporary directory"
	return []bench.Store{memory, file}, "", err
}

// Run starts the set's server and measures the set.
func (s Set) Run(ctx context.Context, t testing.TB, o bench.Options) (*bench.Report, error) {
	var err error
	if o.Stores, o.Server, err = s.stores(ctx, t); err != nil {
		return nil, err
	}
	return bench.Run(ctx, o)
}
