package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
)

// RedisEnv names the environment variable with the URL of a Redis that tests may use.
const RedisEnv = "ANYLOCK_TEST_REDIS_URL"

// RedisURL returns the URL of a Redis for tests that do not break their server: $ANYLOCK_TEST_REDIS_URL, or that of a
// new server started by [Redis].
func RedisURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(RedisEnv); url != "" {
		return url
	}
	return "redis://" + Redis(t).Addr
}

// Redis starts a standalone Redis for the test. args are additional options of redis-server, which override the
// defaults. By default the server keeps nothing on disk. With "--appendonly", "yes", a killed and restarted server
// keeps its data. Relative paths are below Server.Dir.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisKind.source(t).startRedis(t, redisSpec{
		ask:     resp{password: option(args, "--requirepass")},
		options: args,
	})
}

// ready compares the server's process id, because another server may have the same port, and checks that the server has
// loaded its data.
func (r resp) ready(ctx context.Context, s *Server) error {
	info, err := r.info(ctx, s.Addr, "INFO")
	if err != nil {
		return err
	}
	if pid := s.node.pid(); info["process_id"] != strconv.Itoa(pid) {
		return fmt.Errorf("process %s answers on %s, not %d", info["process_id"], s.Addr, pid)
	}
	if info["loading"] == "1" {
		return fmt.Errorf("it is still reading its data")
	}
	return nil
}

func writeFile(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatalf("servers: %v", err)
	}
	return path
}

// option returns the value of an option in args, or "" if it is missing.
func option(args []string, name string) (value string) {
	for i := 0; i+1 < len(args); i++ {
		if args[i] == name {
			value = args[i+1]
		}
	}
	return value
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// RedisSet sets a key on a server without a password.
func RedisSet(t testing.TB, s *Server, key, value string) {
	t.Helper()
	if _, err := (resp{}).ask(t.Context(), s.Addr, "SET", key, value); err != nil {
		t.Fatalf("servers: set %s of redis %s: %v", key, s.Addr, err)
	}
}
