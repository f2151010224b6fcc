package peers

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/anylock/lock/bench"
)

// EtcdRWMutex is etcd's recipe for readers and writers. Each lock has its own key, so all workers of a client can use
// one session.
func EtcdRWMutex(addr string) bench.Store {
	return bench.Store{
		Name: "etcd-rwmutex",
		About: about("go.etcd.io/etcd/client/v3", "experimental/recipes RWMutex, one session for each client, first come "+
			"first served, no context"),
		Open: func(_ context.Context, ttl time.Duration) (bench.Client, error) {
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second})
			if err != nil {
				return nil, err
			}
			s, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second)))
			if err != nil {
				return nil, errors.Join(err, c.Close())
			}
			return etcdRW{c, s}, nil
		},
		MinTTL: 2 * time.Second,
	}
}

type etcdRW struct {
	client  *clientv3.Client
	session *concurrency.Session
}

func (c etcdRW) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	m := recipe.NewRWMutex(c.session, "/"+key)
	return uninterrupted(ctx, m.Lock, m.Unlock)
}

func (c etcdRW) AcquireShared(ctx context.Context, key string) (bench.Lease, error) {
	m := recipe.NewRWMutex(c.session, "/"+key)
	return uninterrupted(ctx, m.RLock, m.RUnlock)
}

// uninterrupted calls lock, which has no context. If ctx ends first, it calls unlock once lock has succeeded.
func uninterrupted(ctx context.Context, lock, unlock func() error) (bench.Lease, error) {
	done := make(chan error)
	go func() {
		err := lock()
		select {
		case done <- err:
		case <-ctx.Done():
			if err == nil {
				_ = unlock()
			}
		}
	}()
	select {
	case err := <-done:
		return released(func(context.Context) error { return unlock() }), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c etcdRW) Try(context.Context, string) (bench.Lease, error) { return nil, bench.ErrUnsupported }

func (c etcdRW) Close() error { return errors.Join(c.session.Close(), c.client.Close()) }

// AcquireShared implements bench.SharedClient by pg_advisory_lock_shared.
func (c advisory) AcquireShared(ctx context.Context, key string) (bench.Lease, error) {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", key); err != nil {
		conn.Release()
		return nil, err
	}
	return unlockShared(conn, key), nil
}

func unlockShared(conn *pgxpool.Conn, key string) bench.Lease {
	return released(func(ctx context.Context) error {
		defer conn.Release()
		_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock_shared(hashtextextended($1, 0))", key)
		return err
	})
}

// RedisHash keeps a hash for each key, which contains the mode and the readers, like Redisson without its messages. It
// has one TTL for all readers and no order, and polls every millisecond.
func RedisHash(addr string) bench.Store {
	return redisStore("hash",
		"go-redis "+version("github.com/redis/go-redis/v9")+": a hash with the mode and the owners, one "+
			"TTL for all readers, no token, no renewal, no order; waits by asking every millisecond", addr,
		func(c *redis.Client, ttl time.Duration) redisPeer { return hash{c, ttl} })
}

type hash struct {
	client *redis.Client
	ttl    time.Duration
}

var (
	hashAcquire = redis.NewScript(`
local mode = redis.call("HGET", KEYS[1], "mode")
if mode and (mode == "w" or ARGV[1] == "w") then return 0 end
redis.call("HSET", KEYS[1], "mode", ARGV[1], ARGV[2], 1)
redis.call("PEXPIRE", KEYS[1], ARGV[3])
return 1`)
	hashRelease = redis.NewScript(`
redis.call("HDEL", KEYS[1], ARGV[1])
if redis.call("HLEN", KEYS[1]) == 1 then redis.call("DEL", KEYS[1]) end
return 0`)
)

func (h hash) try(mode string) func(ctx context.Context, key string) (bench.Lease, error) {
	return func(ctx context.Context, key string) (bench.Lease, error) {
		owner := randomOwner()
		n, err := hashAcquire.Run(ctx, h.client, []string{key}, mode, owner, h.ttl.Milliseconds()).Int()
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			return nil, bench.ErrBusy
		}
		return released(func(ctx context.Context) error {
			return hashRelease.Run(ctx, h.client, []string{key}, owner).Err()
		}), nil
	}
}

func (h hash) Try(ctx context.Context, key string) (bench.Lease, error) { return h.try("w")(ctx, key) }

func (h hash) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	return asking(ctx, key, h.try("w"))
}

func (h hash) AcquireShared(ctx context.Context, key string) (bench.Lease, error) {
	return asking(ctx, key, h.try("r"))
}
