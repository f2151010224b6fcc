package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/bench"
	"github.com/anylock/lock/internal/servers"
)

// redlockPeers starts three servers, and returns our store and the peers.
func redlockPeers(ctx context.Context, t testing.TB) ([]bench.Store, string, error) {
	var addrs []string
	for range 3 {
		s := servers.Redis(t)
		servers.RedisSet(t, s, "anylock:redlock:birth", "new") // the node has forgotten no lease, and may vote at once
		addrs = append(addrs, s.Addr)
	}
	o, err := our(ctx, "redis+redlock://"+strings.Join(addrs, ","),
		"redis+redlock: fencing token, renewal, nodes that have forgotten leases do not vote")
	if err != nil {
		return nil, "", err
	}
	server, err := redisServer(ctx, addrs[0])
	return []bench.Store{o, NaiveQuorum(addrs), RedsyncQuorum(addrs)}, "3 × " + server, err
}

// quorumStore is a peer that uses go-redis on several servers.
func quorumStore(
	name, settings string, addrs []string, open func(nodes []*redis.Client, ttl time.Duration) redisPeer,
) bench.Store {
	clients := func(pool int) (nodes quorumClients) {
		for _, a := range addrs {
			nodes = append(nodes, redis.NewClient(&redis.Options{Addr: a, PoolSize: pool}))
		}
		return nodes
	}
	counting := clients(1)
	return bench.Store{
		Name: name, About: settings,
		Open: func(_ context.Context, ttl time.Duration) (bench.Client, error) {
			const pool = 64 // as in redisStore
			nodes := clients(pool)
			return struct {
				redisPeer
				quorumClients
			}{open(nodes, ttl), nodes}, nil
		},
		Requests: func(ctx context.Context) (sum int64, err error) {
			for _, c := range counting {
				n, err := bench.RedisCommands(ctx, c)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		},
	}
}

type quorumClients []*redis.Client

func (q quorumClients) Close() error {
	var errs []error
	for _, c := range q {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// NaiveQuorum is the published algorithm in its simplest form. It sends SET NX to all servers in parallel, needs a
// majority of them, and deletes the key on all of them with a script. It polls every millisecond.
func NaiveQuorum(addrs []string) bench.Store {
	return quorumStore("naive-quorum",
		"go-redis "+version("github.com/redis/go-redis/v9")+": Bare on three servers at once, without timeouts of "+
			"their own, clean-up after errors, tokens or renewal", addrs,
		func(nodes []*redis.Client, ttl time.Duration) redisPeer { return naiveQuorum{nodes, ttl} })
}

type naiveQuorum struct {
	nodes []*redis.Client
	ttl   time.Duration
}

// all calls do for all servers in parallel, and counts the servers for which do returns true.
func (q naiveQuorum) all(do func(n *redis.Client) (bool, error)) (done int, err error) {
	var wg sync.WaitGroup
	oks, errs := make([]bool, len(q.nodes)), make([]error, len(q.nodes))
	for i, n := range q.nodes {
		wg.Go(func() { oks[i], errs[i] = do(n) })
	}
	wg.Wait()
	for _, ok := range oks {
		if ok {
			done++
		}
	}
	return done, errors.Join(errs...)
}

func (q naiveQuorum) Try(ctx context.Context, key string) (bench.Lease, error) {
	owner := rand.Text()
	done, err := q.all(func(n *redis.Client) (bool, error) { return n.SetNX(ctx, key, owner, q.ttl).Result() })
	release := func(ctx context.Context) error {
		_, err := q.all(func(n *redis.Client) (bool, error) {
			return true, compareAndDelete.Run(ctx, n, []string{key}, owner).Err()
		})
		return err
	}
	switch {
	case err != nil:
		return nil, err
	case done <= len(q.nodes)/2:
		return nil, errors.Join(bench.ErrBusy, release(ctx))
	}
	return released(release), nil
}

func (q naiveQuorum) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	return asking(ctx, key, q.Try)
}

// RedsyncQuorum is [Redsync] on several servers.
func RedsyncQuorum(addrs []string) bench.Store {
	return quorumStore("redsync", about("github.com/go-redsync/redsync/v4",
		"a pool for each server; its own random delays of 50 to 250 ms, tries without end"),
		addrs, func(nodes []*redis.Client, ttl time.Duration) redisPeer {
			pools := make([]redsyncredis.Pool, 0, len(nodes))
			for _, c := range nodes {
				pools = append(pools, goredis.NewPool(c))
			}
			return redsyncPeer{redsync.New(pools...), ttl}
		})
}
