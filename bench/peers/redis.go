package peers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/anylock/lock/bench"
)

// redisStore returns a peer that uses go-redis. Every client has its own pool.
func redisStore(name, settings, addr string, open func(c *redis.Client, ttl time.Duration) redisPeer) bench.Store {
	counting := redis.NewClient(&redis.Options{Addr: addr})
	return bench.Store{
		Name: name, About: settings, Child: name + " " + addr,
		Open: func(_ context.Context, ttl time.Duration) (bench.Client, error) {
			// By default, go-redis's pool has 10 connections per processor. The 64 workers of one client must not queue for
			// connections.
			const pool = 64
			c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: pool})
			return redisClient{open(c, ttl), c}, nil
		},
		Requests: func(ctx context.Context) (int64, error) { return bench.RedisCommands(ctx, counting) },
	}
}

type redisPeer interface {
	Acquire(ctx context.Context, key string) (bench.Lease, error)
	Try(ctx context.Context, key string) (bench.Lease, error)
}

type redisClient struct {
	redisPeer
	client *redis.Client
}

// AcquireShared implements bench.SharedClient.
func (c redisClient) AcquireShared(ctx context.Context, key string) (bench.Lease, error) {
	if p, ok := c.redisPeer.(interface {
		AcquireShared(ctx context.Context, key string) (bench.Lease, error)
	}); ok {
		return p.AcquireShared(ctx, key)
	}
	return nil, bench.ErrUnsupported
}

func (c redisClient) Close() error { return c.client.Close() }

// Bare is SET NX with a compare-and-delete script: the minimum of a lock, and so the baseline. It polls every
// millisecond.
func Bare(addr string) bench.Store {
	return redisStore("bare", "go-redis "+version("github.com/redis/go-redis/v9")+": SET NX PX and a script that "+
		"compares and deletes, no token, no renewal, "+
		"no order; waits by asking every millisecond", addr,
		func(c *redis.Client, ttl time.Duration) redisPeer { return bare{c, ttl} })
}

type bare struct {
	client *redis.Client
	ttl    time.Duration
}

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func (b bare) Try(ctx context.Context, key string) (bench.Lease, error) {
	owner := randomOwner()
	ok, err := b.client.SetNX(ctx, key, owner, b.ttl).Result()
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, bench.ErrBusy
	}
	return released(func(ctx context.Context) error {
		return compareAndDelete.Run(ctx, b.client, []string{key}, owner).Err()
	}), nil
}

func randomOwner() string {
	var random [16]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

func (b bare) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	return asking(ctx, key, b.Try)
}

// asking polls every millisecond.
func asking(
	ctx context.Context, key string, try func(context.Context, string) (bench.Lease, error),
) (bench.Lease, error) {
	for {
		l, err := try(ctx, key)
		if !errors.Is(err, bench.ErrBusy) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// Redsync uses its default delays, which are random between 50 and 250 ms. Shorter delays are faster for few waiters,
// but flood the server if there are many.
func Redsync(addr string) bench.Store {
	return redisStore("redsync", about("github.com/go-redsync/redsync/v4",
		"its own random delays of 50 to 250 ms, tries without end"), addr,
		func(c *redis.Client, ttl time.Duration) redisPeer {
			return redsyncPeer{redsync.New(goredis.NewPool(c)), ttl}
		})
}

type redsyncPeer struct {
	sync *redsync.Redsync
	ttl  time.Duration
}

func (p redsyncPeer) lease(m *redsync.Mutex) bench.Lease {
	stop := renewing(p.ttl, func(ctx context.Context) { _, _ = m.ExtendContext(ctx) })
	return released(func(ctx context.Context) error {
		stop()
		_, err := m.UnlockContext(ctx)
		return err
	})
}

func (p redsyncPeer) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	m := p.sync.NewMutex(key, redsync.WithExpiry(p.ttl), redsync.WithTries(math.MaxInt32))
	if err := m.LockContext(ctx); err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	return p.lease(m), nil
}

func (p redsyncPeer) Try(ctx context.Context, key string) (bench.Lease, error) {
	m := p.sync.NewMutex(key, redsync.WithExpiry(p.ttl))
	err := m.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	switch {
	case errors.As(err, &taken):
		return nil, bench.ErrBusy
	case err != nil:
		return nil, err
	}
	return p.lease(m), nil
}

// Redislock polls every 10 ms. The 100 ms of its examples would leave a contended key idle, and 1 ms floods the server
// (199 commands per lock with 64 waiters).
func Redislock(addr string) bench.Store {
	return redisStore("redislock", about("github.com/bsm/redislock", "asks every 10 ms"), addr,
		func(c *redis.Client, ttl time.Duration) redisPeer { return redislockPeer{redislock.New(c), ttl} })
}

type redislockPeer struct {
	client *redislock.Client
	ttl    time.Duration
}

func (p redislockPeer) obtain(ctx context.Context, key string, o *redislock.Options) (bench.Lease, error) {
	l, err := p.client.Obtain(ctx, key, p.ttl, o)
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), err)
	case errors.Is(err, redislock.ErrNotObtained):
		return nil, bench.ErrBusy
	case err != nil:
		return nil, err
	}
	stop := renewing(p.ttl, func(ctx context.Context) { _ = l.Refresh(ctx, p.ttl, nil) })
	return released(func(ctx context.Context) error {
		stop()
		return l.Release(ctx)
	}), nil
}

func (p redislockPeer) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	const long = time.Hour // without a deadline in the context, Obtain fails after the TTL
	bounded, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	l, err := p.obtain(bounded, key, &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)})
	return l, err
}

func (p redislockPeer) Try(ctx context.Context, key string) (bench.Lease, error) {
	return p.obtain(ctx, key, nil)
}

// Rueidislock uses one key on the single server (its default is two of three, for several servers), and NOLOOP
// tracking, which it recommends from Redis 7.0.5 on. It extends a key by itself every half of the key's validity.
func Rueidislock(addr string) bench.Store {
	counting := redis.NewClient(&redis.Options{Addr: addr})
	return bench.Store{
		Name: "rueidislock", Child: "rueidislock " + addr,
		About: about("github.com/redis/rueidis",
			"KeyMajority 1 on the one server, NoLoopTracking, as it advises from Redis 7.0.5 on"),
		Requests: func(ctx context.Context) (int64, error) { return bench.RedisCommands(ctx, counting) },
		Open: func(_ context.Context, ttl time.Duration) (bench.Client, error) {
			l, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, NoLoopTracking: true,
				KeyValidity: ttl,
			})
			if err != nil {
				return nil, err
			}
			return rueidisClient{l}, nil
		},
	}
}

type rueidisClient struct{ locker rueidislock.Locker }

// rueidisPatience is how long a wait may last before it is restarted; 0 means forever. An attempt of rueidislock that
// had no reply within 20 ms may wait for a message that never arrives. Measurements use 0, because restarts cost time
// that is not rueidislock's.
var rueidisPatience time.Duration

// Acquire waits for key. The context of a rueidislock lock ends with the lock or with ctx. It is not used here, where
// ctx limits only the wait.
func (c rueidisClient) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	if rueidisPatience == 0 {
		_, cancel, err := c.locker.WithContext(ctx, key)
		if err != nil {
			return nil, errors.Join(err, ctx.Err())
		}
		return released(func(context.Context) error { cancel(); return nil }), nil
	}
	for {
		again, stop := context.WithCancel(ctx)
		timer := time.AfterFunc(rueidisPatience, stop)
		_, cancel, err := c.locker.WithContext(again, key)
		switch {
		case err == nil && timer.Stop():
			return released(func(context.Context) error { cancel(); stop(); return nil }), nil
		case err == nil:
			cancel()
		case ctx.Err() != nil || again.Err() == nil:
			stop()
			return nil, errors.Join(err, ctx.Err())
		}
		stop()
	}
}

func (c rueidisClient) Try(ctx context.Context, key string) (bench.Lease, error) {
	_, cancel, err := c.locker.TryWithContext(ctx, key)
	switch {
	case errors.Is(err, rueidislock.ErrNotLocked):
		return nil, bench.ErrBusy
	case err != nil:
		return nil, err
	}
	return released(func(context.Context) error { cancel(); return nil }), nil
}

func (c rueidisClient) Close() error { c.locker.Close(); return nil }

// redisServer returns the version of the server.
func redisServer(ctx context.Context, addr string) (string, error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return fmt.Sprintf("Redis %s that keeps nothing on disk", strings.TrimSpace(v)), nil
		}
	}
	return "", errors.New("INFO has no redis_version")
}
