package servers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/anylock/lock/internal/moduleroot"
)

// RedisVersions are the releases of Redis, and of Valkey, that scripts/redis-versions fetches.
var RedisVersions = []string{"redis-6.0", "redis-8.0", "valkey-8.1"}

// RedisVersion is [Redis] with a release in [RedisVersions]. It downloads nothing. It calls [Missing] if the script has
// not fetched the release.
func RedisVersion(t testing.TB, name string, args ...string) *Server {
	t.Helper()
	const script = "scripts/redis-versions"
	programs, err := listRedisVersions()
	if err != nil {
		t.Fatalf("servers: %s: %v", script, err)
	}
	program := programs[name]
	if program == "" {
		Missing(t, "no %s on this machine: run %s", name, script)
	}
	g := &group{kind: redisKind, binary: program, port: freePort}
	return g.startRedis(t, redisSpec{options: args})
}

// listRedisVersions returns the programs that the script has fetched, by name.
var listRedisVersions = sync.OnceValues(func() (map[string]string, error) {
	root, err := moduleroot.Find()
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(filepath.Join(root, "scripts", "redis-versions"), "list").Output()
	if err != nil {
		return nil, err
	}
	programs := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, program, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			return nil, fmt.Errorf("a line without a program: %q", line)
		}
		programs[name] = program
	}
	return programs, nil
})
