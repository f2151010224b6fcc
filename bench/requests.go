package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend/driver"
)

// requestCounter returns a function that counts the requests served by a URL's servers. It returns nil if they do not
// report the number.
func requestCounter(ctx context.Context, raw string, u driver.URL) func(ctx context.Context) (int64, error) {
	s := serversOf[u.Scheme]
	if s.requests == nil || len(u.Hosts) == 0 || strings.Contains(u.Query, "lock_node=") { // lock_node names further hosts
		return nil
	}
	hosts := s.hosts(u, raw)
	count := func(ctx context.Context) (sum int64, err error) {
		for _, h := range hosts {
			n, err := s.requests(ctx, h)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if _, err := count(ctx); err != nil {
		return nil
	}
	return count
}

func redisRequests(ctx context.Context, h *host) (int64, error) {
	return RedisCommands(ctx, h.redisClient())
}

// RedisCommands returns the number of commands that a Redis has executed, including those in scripts. The number comes
// from INFO commandstats, and does not include INFO itself.
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

// memcachedRequests returns the number of commands on items.
func memcachedRequests(ctx context.Context, h *host) (sum int64, err error) {
	err = ask(ctx, h.addr, "stats\r\n", func(line string) bool {
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

// zookeeperRequests returns the number of packets received, from the command srvr. The number includes pings and srvr
// itself.
func zookeeperRequests(ctx context.Context, h *host) (int64, error) {
	received, err := firstAfter(ctx, h.addr, "srvr", "Received: ")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(received, 10, 64)
}

// etcdRequests returns the number of messages received, from the server's metrics: one for each unary call, and those
// in streams.
func etcdRequests(ctx context.Context, h *host) (sum int64, err error) {
	metrics, err := get(ctx, h.addr, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "grpc_server_msg_received_total{") {
			_, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += int64(n)
		}
	}
	return sum, nil
}
