package redlock

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/servers"
)

// BenchmarkAcquireRelease measures workers that each use their own key, and for comparison a quorum of SET NX PX, as in
// the published algorithm.
func BenchmarkAcquireRelease(b *testing.B) {
	f := startFleet(b, 3)
	f.bootstrap()
	for _, workers := range []int{1, 8, 32, 64} {
		b.Run(fmt.Sprintf("op=acquire-release/workers=%d", workers), func(b *testing.B) {
			r := opened(b, f.url("pool_size="+fmt.Sprint(workers+1)))
			together(b, workers, func(w int) { cycle(b, r, req(fmt.Sprint("k", w), time.Minute)) })
		})
		b.Run(fmt.Sprintf("op=naive/workers=%d", workers), func(b *testing.B) {
			n := newNaiveQuorum(f.nodes, workers+1)
			defer n.close()
			together(b, workers, func(w int) {
				if err := n.cycle(fmt.Sprint("n", w), time.Minute); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// A naiveQuorum sets a key to a random value on all nodes at once, and then deletes the key from all of them. It does
// not check for a majority, because each worker has its own key.
type naiveQuorum struct{ nodes []*redis.Client }

func newNaiveQuorum(nodes []*servers.Server, pool int) naiveQuorum {
	var q naiveQuorum
	for _, n := range nodes {
		q.nodes = append(q.nodes, redis.NewClient(&redis.Options{Addr: n.Addr, PoolSize: pool}))
	}
	return q
}

func (q naiveQuorum) close() {
	for _, n := range q.nodes {
		_ = n.Close()
	}
}

var naiveRelease = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func (q naiveQuorum) cycle(key string, ttl time.Duration) error {
	value := rand.Text()
	for _, step := range []func(n *redis.Client) error{
		func(n *redis.Client) error { return n.SetNX(context.Background(), key, value, ttl).Err() },
		func(n *redis.Client) error {
			return naiveRelease.Run(context.Background(), n, []string{key}, value).Err()
		},
	} {
		var wg sync.WaitGroup
		errs := make([]error, len(q.nodes))
		for i, n := range q.nodes {
			wg.Go(func() { errs[i] = step(n) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
	return nil
}
