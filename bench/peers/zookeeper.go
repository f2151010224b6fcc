package peers

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/bench"
)

// ZKLock is the recipe of the client library. Its Lock has no context, and it has no attempt without waiting. Its
// parent nodes are never removed.
func ZKLock(addr string) bench.Store {
	return bench.Store{
		Name: "zk-lock", Child: "zk-lock " + addr,
		About: about("github.com/go-zookeeper/zk", "zk.Lock, one session for each client"),
		Open: func(_ context.Context, ttl time.Duration) (bench.Client, error) {
			c, _, err := zk.Connect([]string{addr}, ttl, zk.WithLogInfo(false), zk.WithLogger(silent{}))
			if err != nil {
				return nil, err
			}
			return zkClient{c}, nil
		},
		MinTTL: 2 * time.Second,
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

type zkClient struct{ conn *zk.Conn }

func (c zkClient) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	l := zk.NewLock(c.conn, "/"+key, zk.WorldACL(zk.PermAll))
	done := make(chan error, 1)
	go func() { done <- l.Lock() }()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		go func() { // the caller no longer waits: unlock for the next waiter
			if <-done == nil {
				_ = l.Unlock()
			}
		}()
		return nil, ctx.Err()
	}
	return released(func(context.Context) error { return l.Unlock() }), nil
}

func (zkClient) Try(context.Context, string) (bench.Lease, error) { return nil, bench.ErrUnsupported }

func (c zkClient) Close() error { c.conn.Close(); return nil }

// zooKeeperServer returns the version of the server. It does not use the library's own command, which fails if the
// version has a packager's suffix.
func zooKeeperServer(addr string) (string, error) {
	const patience = 5 * time.Second
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(string(answer), "Zookeeper version: "), "-")
	return fmt.Sprintf("ZooKeeper %s, one server, on disk", version), nil
}
