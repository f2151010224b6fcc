package servers

import (
	"os"
	"regexp"
	"testing"
)

// Stock returns functions by store, which start servers with the default limits and timeouts of their packages and
// return their URL. Each server belongs to one test. The nodes of Redlock are new, so they cannot vote for a while.
func Stock() map[string]func(t testing.TB) string {
	return map[string]func(t testing.TB) string{
		"redis": func(t testing.TB) string { return "redis://" + stockRedis(t).Addr },
		"redlock": func(t testing.TB) string {
			return "redis+redlock://" + stockRedis(t).Addr + "," + stockRedis(t).Addr + "," + stockRedis(t).Addr
		},
		"etcd": func(t testing.TB) string { return "etcd://" + Etcd(t).Addr },
		"zookeeper": func(t testing.TB) string {
			return "zookeeper://" + ZooKeeper(t, "tickTime=2000", "syncLimit=5", "maxClientCnxns=60", "forceSync=yes",
				"preAllocSize=65536").Addr
		},
		"memcached": func(t testing.TB) string { return "memcached://" + Memcached(t, "-m", "64", "-c", "1024").Addr },
		"postgres": func(t testing.TB) string {
			return Postgres(t, "max_connections=100", "fsync=on", "shared_buffers=128MB", "max_wal_size=1GB",
				"autovacuum=on").PostgresURL()
		},
	}
}

// stockRedis starts a Redis with the configuration of the machine's package. If there is none, it uses Redis's own
// defaults.
func stockRedis(t testing.TB) *Server {
	t.Helper()
	const conf = "/etc/redis/redis.conf"
	g := redisKind.source(t)
	spec := redisSpec{options: []string{"--save", "3600 1 300 100 60 10000", "--appendfsync", "everysec",
		"--repl-diskless-sync-delay", "5"}}
	l := spec.launch()
	if text, err := os.ReadFile(conf); err == nil {
		text = regexp.MustCompile(`(?m)^(dir|logfile|pidfile|daemonize|bind|port) .*`).ReplaceAll(text, nil)
		l.command = func(at place) ([]string, map[string]string) {
			return []string{"redis.conf", "--port", at.port, "--bind", bindHost}, map[string]string{"redis.conf": string(text)}
		}
	}
	return g.start(t, l)
}
