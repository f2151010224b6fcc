package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// requestCounter returns what counts the requests that the servers of a URL have done, nil where they don't tell.
func requestCounter(ctx context.Context, u backend.URL) func(ctx context.Context) (int64, error) {
	if len(u.Hosts) == 0 || strings.Contains(u.Query, "lock_node=") { // which names further hosts
		return nil
	}
	var count func(ctx context.Context) (int64, error)
	switch u.Scheme {
	case "redis", "redis+redlock":
		count = sumOver(u.Hosts, "6379", redisRequests(u))
	case "memcached":
		count = sumOver(u.Hosts, "11211", memcachedRequests)
	case "zookeeper":
		count = sumOver(u.Hosts, "2181", zookeeperRequests)
	case "etcd":
		count = sumOver(u.Hosts, "2379", etcdRequests)
	default:
		return nil
	}
	// A server that does not tell, because its metrics are closed or the user may not ask, goes without.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := count(ctx); err != nil {
		return nil
	}
	return count
}

func sumOver(hosts []string, port string, one func(ctx context.Context, addr string) (int64, error)) func(context.Context) (int64, error) {
	return func(ctx context.Context) (sum int64, err error) {
		for _, h := range hosts {
			n, err := one(ctx, withPort(h, port))
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}
}

// redisRequests counts the commands of one server. Its connections stay: to open one costs commands too.
func redisRequests(u backend.URL) func(ctx context.Context, addr string) (int64, error) {
	clients := make(map[string]*redis.Client)
	return func(ctx context.Context, addr string) (int64, error) {
		if clients[addr] == nil {
			clients[addr] = redis.NewClient(&redis.Options{
				Addr: addr, Username: u.User, Password: u.Password, ContextTimeoutEnabled: true,
			})
		}
		return RedisCommands(ctx, clients[addr])
	}
}

// RedisCommands counts what a Redis has executed by INFO commandstats, commands inside of scripts too; INFO itself is left out.
func RedisCommands(ctx context.Context, c *redis.Client) (sum int64, err error) {
	text, err := c.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		name, stat, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		if !ok || name == "cmdstat_info" {
			continue
		}
		stat, _, _ = strings.Cut(stat, ",")
		n, err := strconv.ParseInt(stat, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("commandstats: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// memcachedRequests counts commands that reach items.
func memcachedRequests(ctx context.Context, addr string) (sum int64, err error) {
	err = ask(ctx, addr, "stats\r\n", func(line string) bool {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "STAT" {
			switch f[1] {
			case "cmd_get", "cmd_set", "cmd_touch", "cmd_meta", "delete_hits", "delete_misses", "incr_hits", "incr_misses":
				n, _ := strconv.ParseInt(f[2], 10, 64)
				sum += n
			}
		}
		return line != "END"
	})
	return sum, err
}

// zookeeperRequests counts packets received, pings too, by the command srvr, less its own.
func zookeeperRequests(ctx context.Context, addr string) (received int64, err error) {
	found := false
	err = ask(ctx, addr, "srvr", func(line string) bool {
		if n, ok := strings.CutPrefix(line, "Received: "); ok {
			received, err = strconv.ParseInt(n, 10, 64)
			found = err == nil
		}
		return true
	})
	if err == nil && !found {
		err = fmt.Errorf("%s does not answer srvr", addr)
	}
	return received, err
}

// ask sends a request and passes the lines of its answer until more is false, or the connection ends.
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

// etcdRequests counts requests by the metrics of the server: unary calls handled, and messages in streams.
func etcdRequests(ctx context.Context, addr string) (sum int64, err error) {
	target := url.URL{Scheme: "http", Host: addr, Path: "/metrics"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	s := bufio.NewScanner(resp.Body)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if strings.HasPrefix(s.Text(), "grpc_server_msg_received_total{") {
			_, value, _ := strings.Cut(s.Text(), "} ")
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += int64(n)
		}
	}
	return sum, s.Err()
}
