package peers

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/anylock/lock/bench"
)

// EtcdMutex is etcd's own recipe. A Mutex is re-entrant within its session, so two workers need two sessions. Sessions
// are reused, because a new one costs a lease and a stream.
func EtcdMutex(addr string) bench.Store {
	return bench.Store{
		Name: "etcd-mutex", Child: "etcd-mutex " + addr,
		About: about("go.etcd.io/etcd/client/v3",
			"concurrency.Mutex, a session for each worker (it is re-entrant within one), used again"),
		Open: func(_ context.Context, ttl time.Duration) (bench.Client, error) {
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second})
			if err != nil {
				return nil, err
			}
			return &etcdClient{client: c, ttl: ttl}, nil
		},
		MinTTL: 2 * time.Second,
	}
}

type etcdClient struct {
	client *clientv3.Client
	ttl    time.Duration

	mu   sync.Mutex
	idle []*concurrency.Session
	all  []*concurrency.Session
}

func (c *etcdClient) session() (*concurrency.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		s := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return s, nil
	}
	s, err := concurrency.NewSession(c.client, concurrency.WithTTL(int(c.ttl/time.Second)))
	if err == nil {
		c.all = append(c.all, s)
	}
	return s, err
}

func (c *etcdClient) giveBack(s *concurrency.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, s)
}

func (c *etcdClient) lock(key string, lock func(m *concurrency.Mutex) error) (bench.Lease, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, "/"+key)
	if err := lock(m); err != nil {
		c.giveBack(s)
		return nil, err
	}
	return released(func(ctx context.Context) error {
		defer c.giveBack(s)
		return m.Unlock(ctx)
	}), nil
}

func (c *etcdClient) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	return c.lock(key, func(m *concurrency.Mutex) error { return m.Lock(ctx) })
}

func (c *etcdClient) Try(ctx context.Context, key string) (bench.Lease, error) {
	l, err := c.lock(key, func(m *concurrency.Mutex) error { return m.TryLock(ctx) })
	if errors.Is(err, concurrency.ErrLocked) {
		return nil, bench.ErrBusy
	}
	return l, err
}

func (c *etcdClient) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, s := range c.all {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.client.Close())...)
}

// etcdServer returns the version of the server.
func etcdServer(ctx context.Context, addr string) (string, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second})
	if err != nil {
		return "", err
	}
	defer c.Close()
	status, err := c.Status(ctx, addr)
	if err != nil {
		return "", err
	}
	return "etcd " + status.Version + ", one member, on disk", nil
}
