package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/redis/internal/exchange"
)

// sendToNode sends requests for keys of one server through a client of several servers.
func (b *Backend) sendToNode(ctx context.Context, list []exchange.Request) []exchange.Result {
	var client exchange.Sender = b.client // a cluster client follows moving slots, but sends WAIT to any server
	if list[0].Replicas > 0 {
		node, err := b.node(ctx, list[0].FirstKey())
		if err != nil {
			return slices.Repeat([]exchange.Result{{Err: err}}, len(list))
		}
		client = node
	}
	results := exchange.Send(ctx, client, list)
	for _, r := range results {
		if c, ok := b.client.(*redis.ClusterClient); ok && redis.HasErrorPrefix(r.Err, "MOVED") {
			c.ReloadState(ctx)
			break
		}
	}
	return results
}

// sendByNode sends requests for keys of several servers, concurrently with one pipeline for each server.
func (b *Backend) sendByNode(ctx context.Context, list []exchange.Request) []exchange.Result {
	byNode := make(map[*redis.Client][]int) // requests without a known server form one group
	for i, q := range list {
		node, _ := b.node(ctx, q.FirstKey())
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
			v, err := exchange.Await(ctx, b.leases.Go, time.Now().Add(limit), exchange.Request{},
				func(ctx context.Context) (any, error) { return b.sendToNode(ctx, some), nil })
			for k, i := range index {
				if results[i].Err = err; err == nil {
					results[i] = v.([]exchange.Result)[k]
				}
			}
		})
	}
	senders.Wait()
	return results
}

// node returns the client of the server that has key.
func (b *Backend) node(ctx context.Context, key string) (*redis.Client, error) {
	switch c := b.client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	}
	return nil, fmt.Errorf("no single server behind a client of type %T", b.client)
}
