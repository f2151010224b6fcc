package redistest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/redis/internal/endpoint"
)

// Version starts a server of a release, and checks that the server reports that release.
func Version(t testing.TB, name string, args ...string) *servers.Server {
	t.Helper()
	s := servers.RedisVersion(t, name, args...)
	text, err := Raw(t, s.Addr).Info(context.Background(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	info := endpoint.ParseInfo(text)
	product, want, _ := strings.Cut(name, "-")
	got := info[product+"_version"]
	if !strings.HasPrefix(got, want+".") || (product == "redis") != (info["server_name"] != "valkey") {
		t.Fatalf("INFO of %s says: %v", name, info)
	}
	t.Logf("%s %s", product, got)
	return s
}

// Cut breaks the connections of all clients, including those with subscriptions.
func Cut(t *testing.T, addr string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	for _, kind := range []string{"normal", "pubsub"} {
		if err := c.ClientKillByFilter(context.Background(), "TYPE", kind, "SKIPME", "yes").Err(); err != nil {
			t.Error(err)
		}
	}
}

// Fill sets a server's memory limit below what it uses. The server then refuses commands that need memory, and evicts
// nothing. undo removes the limit.
func Fill(t testing.TB, addr string) (undo func()) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	set := func(c *redis.Client, value string) {
		t.Helper()
		for _, setting := range [][2]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", value}} {
			if err := c.ConfigSet(context.Background(), setting[0], setting[1]).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(c, "1") // byte
	if err := c.Set(context.Background(), "anylock:one-more", "x", time.Second).Err(); !redis.HasErrorPrefix(err, "OOM") {
		t.Fatalf("a full server: %v, want OOM", err)
	}
	return func() {
		c := redis.NewClient(&redis.Options{Addr: addr})
		defer c.Close()
		set(c, "0")
	}
}
