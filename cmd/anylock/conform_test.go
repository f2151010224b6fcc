package main

import (
	"os/exec"
	"testing"

	"github.com/anylock/lock/internal/servers"
)

// The command checks every store that it knows, as a user would; the stores' own tests run the whole suite.
func TestConformOnServers(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"redis":     func(t *testing.T) string { return servers.RedisURL(t) },
		"redlock":   func(t *testing.T) string { return startRedlock(t) },
		"etcd":      func(t *testing.T) string { return servers.EtcdURL(t) },
		"zookeeper": func(t *testing.T) string { return servers.ZooKeeperURL(t) },
		"postgres":  func(t *testing.T) string { return servers.PostgresURL(t) },
		"memcached": func(t *testing.T) string { return servers.MemcachedURL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("anylock", "conform", "--backend", url(t), "--run",
				"^(ClientsShareStore|OneAttemptWins|StaleReleaseSparesNewHolder|WaiterGetsReleasedKey|TokensIncrease|ExtremesAreAccepted)$")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// startRedlock starts a fleet with its parameters as they come, and lets it vote at once.
func startRedlock(t *testing.T) string {
	t.Helper()
	url := "redis+redlock://"
	for i := range 3 {
		s := servers.Redis(t)
		servers.RedisSet(t, s, "anylock:redlock:birth", "new")
		if i > 0 {
			url += ","
		}
		url += s.Addr
	}
	return url
}
