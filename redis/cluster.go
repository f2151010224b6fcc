package redis

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/redis/internal/exchange"
)

// sendToNode sends requests for keys of one server through a client of several servers.
func (b *Backend) sendToNode(ctx context.Context, list []exchange.Request) []exchange.Result {
	if list[0].Replicas == 0 {
		return exchange.Send(ctx, b.client, list) // a cluster client follows moving slots
	}
	cluster := b.client.(*redis.ClusterClient) // see onClient
	node, err := cluster.MasterForKey(ctx, list[0].FirstKey())
	if err != nil {
		return slices.Repeat([]exchange.Result{{Err: err}}, len(list))
	}
	results := exchange.Send(ctx, node, list) // because a cluster client sends WAIT to any server
	if slices.ContainsFunc(results, func(r exchange.Result) bool { return redis.HasErrorPrefix(r.Err, "MOVED") }) {
		cluster.ReloadState(ctx)
	}
	return results
}

// sendByNode sends requests for keys of several servers, concurrently with one pipeline for each server.
func (b *Backend) sendByNode(ctx context.Context, list []exchange.Request) []exchange.Result {
	byNode := make(map[*redis.Client][]int) // requests without a known server form one group
	for i, q := range list {
		var node *redis.Client
		if c, ok := b.client.(*redis.ClusterClient); ok {
			node, _ = c.MasterForKey(ctx, q.FirstKey())
		}
		byNode[node] = append(byNode[node], i)
	}
	results := make([]exchange.Result, len(list))
	var senders sync.WaitGroup
	for _, index := range byNode {
		senders.Go(func() {
			some := make([]exchange.Request, len(index))
			limit := b.options.Timeout
			for k, i := range index {
				some[k] = list[i]
				limit = min(limit, list[i].Limit)
			}
			replies, err := exchange.Await(ctx, b.leases.Go, limit, func(ctx context.Context) ([]exchange.Result, error) {
				return b.sendToNode(ctx, some), nil
			})
			if err != nil {
				replies = slices.Repeat([]exchange.Result{{Err: err}}, len(index))
			}
			for k, i := range index {
				results[i] = replies[k]
			}
		})
	}
	senders.Wait()
	return results
}

// onMasters calls f for the server or, in a Cluster, concurrently for every master, and returns all results. where
// names the master. It is empty if there is only one server.
func onMasters[T any](
	ctx context.Context, b *Backend, f func(ctx context.Context, where string, c redis.Cmdable) ([]T, error),
) (all []T, err error) {
	cluster, ok := b.client.(*redis.ClusterClient)
	if !ok {
		return f(ctx, "", b.client)
	}
	var mu sync.Mutex
	masters := 0
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		some, err := f(ctx, node.Options().Addr, node)
		mu.Lock()
		defer mu.Unlock()
		masters++
		all = append(all, some...)
		return err
	})
	if err == nil && masters == 0 {
		err = errors.New("the cluster has no masters")
	}
	return all, err
}
