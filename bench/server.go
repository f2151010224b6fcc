package bench

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// serverOf says which server a URL leads to, as in "Redis 7.0.15": the first that it names. It is empty where there is none, or the server
// does not tell.
func serverOf(ctx context.Context, rawURL string, u backend.URL) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	name, version := "", ""
	switch u.Scheme {
	case "redis", "redis+redlock":
		name, version = "Redis", redisVersion(ctx, u)
	case "memcached":
		name, version = "memcached", firstAfter(ctx, first(u, "11211"), "version\r\n", "VERSION ")
	case "zookeeper":
		name, version = "ZooKeeper", firstAfter(ctx, first(u, "2181"), "srvr", "Zookeeper version: ")
		version, _, _ = strings.Cut(version, "-")
	case "etcd":
		name, version = "etcd", etcdVersion(ctx, first(u, "2379"))
	case "postgres", "postgresql":
		name, version = "Postgres", postgresVersion(ctx, rawURL)
	}
	if version == "" {
		return ""
	}
	return name + " " + version
}

// first is the address of the first host.
func first(u backend.URL, port string) string {
	if len(u.Hosts) == 0 {
		return ""
	}
	return withPort(u.Hosts[0], port)
}

// withPort is a host with the port, unless it has one.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err != nil {
		return net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	return host
}

func redisVersion(ctx context.Context, u backend.URL) (version string) {
	c := redis.NewClient(&redis.Options{Addr: first(u, "6379"), Username: u.User, Password: u.Password, ContextTimeoutEnabled: true})
	defer c.Close()
	for line := range strings.Lines(c.Info(ctx, "server").Val()) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			version = strings.TrimSpace(v)
		}
	}
	return version
}

// firstAfter is what follows prefix in the answer's line that begins with it.
func firstAfter(ctx context.Context, addr, request, prefix string) (rest string) {
	_ = ask(ctx, addr, request, func(line string) bool {
		var found bool
		rest, found = strings.CutPrefix(strings.TrimSpace(line), prefix)
		return !found
	})
	return rest
}

func etcdVersion(ctx context.Context, addr string) string {
	target := url.URL{Scheme: "http", Host: addr, Path: "/version"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var v struct {
		Server string `json:"etcdserver"`
	}
	_ = json.NewDecoder(resp.Body).Decode(&v)
	return v.Server
}

func postgresVersion(ctx context.Context, rawURL string) (version string) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	q := u.Query()
	for name := range q {
		if strings.HasPrefix(name, "lock_") {
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	c, err := pgx.Connect(ctx, u.String())
	if err != nil {
		return ""
	}
	defer c.Close(ctx)
	_ = c.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return version
}
