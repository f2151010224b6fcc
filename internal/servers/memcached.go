package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// MemcachedEnv names the environment variable with the URL of a memcached that tests may use.
const MemcachedEnv = "ANYLOCK_TEST_MEMCACHED_URL"

var memcachedKind = kind{
	name:  "memcached",
	find:  findProgram([]string{"memcached"}, "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/memcached*/bin"),
	taken: "Address already in use",
}

// MemcachedURL returns the URL of a memcached for tests that do not break their server: $ANYLOCK_TEST_MEMCACHED_URL, or
// that of a new server started by [Memcached].
func MemcachedURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(MemcachedEnv); url != "" {
		return url
	}
	return "memcached://" + Memcached(t).Addr
}

// Memcached starts a memcached for the test. args are additional options, which override the defaults. A killed and
// restarted server is empty.
func Memcached(t testing.TB, args ...string) *Server {
	t.Helper()
	return memcachedKind.source(t).start(t, memcachedLaunch(func(at place) []string {
		return append([]string{"-p", at.port, "-l", bindHost, "-c", "4096"}, args...)
	}))
}

// memcachedLaunch returns how to run a server with options.
func memcachedLaunch(options func(at place) []string) launch {
	return launch{
		command: func(at place) ([]string, map[string]string) {
			// memcached refuses to run as root. For other users, the option -u has no effect.
			return append([]string{"-U", "0", "-u", "nobody"}, options(at)...), nil
		},
		ready: memcachedReady,
		empty: without(),
	}
}

// memcachedReady compares the server's process id, because another server may have the same port.
func memcachedReady(ctx context.Context, s *Server) error {
	stats, err := MemcachedStats(ctx, s.Addr)
	if err != nil {
		return err
	}
	if pid := s.node.pid(); stats["pid"] != strconv.Itoa(pid) {
		return fmt.Errorf("process %s answers on %s, not %d", stats["pid"], s.Addr, pid)
	}
	if stats["pid"] == "" {
		return fmt.Errorf("it does not report its process id")
	}
	return nil
}

// MemcachedStats returns a memcached's general statistics, using a new connection.
func MemcachedStats(ctx context.Context, addr string) (map[string]string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write([]byte("stats\r\n")); err != nil {
		return nil, err
	}
	stats := make(map[string]string)
	for in := bufio.NewScanner(conn); in.Scan(); {
		if in.Text() == "END" {
			return stats, nil
		}
		name, value, _ := strings.Cut(strings.TrimPrefix(in.Text(), "STAT "), " ")
		stats[name] = value
	}
	return nil, fmt.Errorf("its statistics end in the middle")
}
