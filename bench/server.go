package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/pgurl"
)

// A server is a kind of server. It defines how to read the version and the load.
type server struct {
	name     string
	port     string // the default port
	version  func(ctx context.Context, h *host) (string, error)
	requests func(ctx context.Context, h *host) (int64, error) // nil if the server does not count them
}

// A host is one of the hosts in a URL.
type host struct {
	addr string
	url  driver.URL
	raw  string

	redis *redis.Client
}

var serversOf = map[string]server{ // by schemes
	"redis":         redisServer,
	"redis+redlock": redisServer,
	"memcached":     {"memcached", "11211", memcachedVersion, memcachedRequests},
	"zookeeper":     {"ZooKeeper", "2181", zookeeperVersion, zookeeperRequests},
	"etcd":          {"etcd", "2379", etcdVersion, etcdRequests},
	"postgres":      postgresServer,
	"postgresql":    postgresServer,
}

var (
	redisServer    = server{"Redis", "6379", redisVersion, redisRequests}
	postgresServer = server{"Postgres", "5432", postgresVersion, nil}
)

// hosts returns the hosts of a URL.
func (s server) hosts(u driver.URL, raw string) (hosts []*host) {
	for _, h := range u.Hosts {
		addr, err := driver.HostPort(h, s.port)
		if err != nil {
			addr = h // a Unix socket of Postgres, which is reached by the URL
		}
		hosts = append(hosts, &host{addr: addr, url: u, raw: raw})
	}
	return hosts
}

// reportTimeout is how long a server may take to report its state before a measurement. Without a report, because its
// metrics are closed or the user lacks permission, the measurement has no such figures.
const reportTimeout = 2 * time.Second

// serverOf returns the name and version of the first server of a URL, such as "Redis 7.0.15". It returns "" if there is
// no server, or the server does not report its version.
func serverOf(ctx context.Context, raw string, u driver.URL) string {
	s, ok := serversOf[u.Scheme]
	if !ok || len(u.Hosts) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	version, err := s.version(ctx, s.hosts(u, raw)[0])
	if err != nil || version == "" {
		return ""
	}
	return s.name + " " + version
}

// redisClient returns the same client for all requests, because opening a connection costs commands too.
func (h *host) redisClient() *redis.Client {
	if h.redis == nil {
		h.redis = redis.NewClient(&redis.Options{
			Addr: h.addr, Username: h.url.User, Password: h.url.Password, ContextTimeoutEnabled: true,
		})
	}
	return h.redis
}

func redisVersion(ctx context.Context, h *host) (string, error) {
	c := h.redisClient()
	defer c.Close()
	text, err := c.Info(ctx, "server").Result()
	_, rest, _ := strings.Cut(text, "redis_version:")
	version, _, _ := strings.Cut(rest, "\r")
	return version, err
}

func memcachedVersion(ctx context.Context, h *host) (string, error) {
	return firstAfter(ctx, h.addr, "version\r\n", "VERSION ")
}

func zookeeperVersion(ctx context.Context, h *host) (string, error) {
	version, err := firstAfter(ctx, h.addr, "srvr", "Zookeeper version: ")
	version, _, _ = strings.Cut(version, "-")
	return version, err
}

func etcdVersion(ctx context.Context, h *host) (string, error) {
	body, err := get(ctx, h.addr, "/version")
	if err != nil {
		return "", err
	}
	var v struct {
		Server string `json:"etcdserver"`
	}
	err = json.Unmarshal(body, &v)
	return v.Server, err
}

func postgresVersion(ctx context.Context, h *host) (version string, err error) {
	d, err := driver.Lookup(h.raw)
	if err != nil {
		return "", err
	}
	u, err := d.Parse(h.raw)
	if err != nil {
		return "", err
	}
	config, err := pgurl.Config(u)
	if err != nil {
		return "", err
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return version, err
}

// ask sends a request and calls more with each line of the reply, until more returns false or the connection ends.
func ask(ctx context.Context, addr, request string, more func(line string) bool) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	s := bufio.NewScanner(conn)
	for s.Scan() && more(s.Text()) {
	}
	return s.Err()
}

// firstAfter returns the rest of the reply's first line that begins with prefix.
func firstAfter(ctx context.Context, addr, request, prefix string) (rest string, err error) {
	found := false
	err = ask(ctx, addr, request, func(line string) bool {
		rest, found = strings.CutPrefix(strings.TrimSpace(line), prefix)
		return !found
	})
	if err == nil && !found {
		err = fmt.Errorf("%s does not report its %q", addr, prefix)
	}
	return rest, err
}

// get sends an HTTP request to a server.
func get(ctx context.Context, addr, path string) ([]byte, error) {
	target := url.URL{Scheme: "http", Host: addr, Path: path}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
