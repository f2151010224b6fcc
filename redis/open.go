package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// look reaches the servers once, refuses those that cannot keep locks, and enters in the guarantees what they say about
// losing keys.
func (b *Backend) look(ctx context.Context) error {
	v, err := b.usage.Await(ctx, time.Now().Add(endpoint.OpenTimeout), exchange.Request{}, func(ctx context.Context) (any, error) { return b.ask(ctx) })
	if backend.Ended(ctx) {
		return backend.ContextError(ctx, err)
	}
	if err != nil {
		return exchange.Unavailable(err)
	}
	for _, loss := range v.([]string) {
		b.guarantees.EarlyLoss += "; " + loss
	}
	return nil
}

// ask asks every master, and returns what makes it lose keys.
func (b *Backend) ask(ctx context.Context) ([]string, error) {
	c, ok := b.client.(*redis.ClusterClient)
	if !ok {
		loss, err := askServer(ctx, b.client, false)
		if err == nil {
			err = b.probe(ctx)
		}
		if err != nil || loss == "" {
			return nil, err
		}
		return []string{loss}, nil
	}
	var mu sync.Mutex
	found := make(map[string]bool)
	masters := 0
	err := c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		loss, err := askServer(ctx, node, true)
		mu.Lock()
		defer mu.Unlock()
		masters++
		if loss != "" {
			found[loss] = true
		}
		return err
	})
	if err == nil && masters == 0 {
		err = errors.New("the cluster has no masters")
	}
	if err == nil {
		err = b.probe(ctx) // of one master, for all
	}
	return slices.Sorted(maps.Keys(found)), err
}

func askServer(ctx context.Context, c redis.Cmdable, cluster bool) (loss string, err error) {
	text, err := c.Info(ctx).Result()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return "eviction, unless maxmemory-policy is noeviction (INFO is not permitted)", nil
	}
	if err != nil {
		return "", err
	}
	info := endpoint.ParseInfo(text)
	switch {
	case info["role"] == "slave":
		return "", errors.New("the server is a read-only replica: locks live on the master")
	case info["cluster_enabled"] == "1" && !cluster:
		return "", errors.New("the server belongs to a cluster: use redis+cluster://")
	}
	if err := endpoint.TooOld(info); err != nil {
		return "", err
	}
	var losses []string
	if policy := endpoint.Evicts(info); policy != "" {
		losses = append(losses, "eviction, because maxmemory-policy is "+policy)
	}
	// INFO tells of replicas in reach only where min-replicas-to-write is set.
	if _, set := info["min_slaves_good_slaves"]; !set && info["connected_slaves"] != "" && info["connected_slaves"] != "0" {
		losses = append(losses, "a partition, because min-replicas-to-write is not set on a master with replicas")
	}
	return strings.Join(losses, "; "), nil
}

// probe tries what the scripts need, on keys of nobody else.
func (b *Backend) probe(ctx context.Context) error {
	if b.options.MinReplicas > 0 {
		if err := b.client.Do(ctx, "WAIT", 0, 1).Err(); exchange.IsReply(err) && !exchange.Passing(err) {
			return fmt.Errorf("%w: min replicas: %v", backend.ErrUnsupported, err)
		}
	}
	n := b.naming.names("probe:" + b.inbox.id)
	return endpoint.Probe(ctx, b.client, []string{n.lock, n.queue}, b.inbox.channel, scriptCommands)
}

// scriptCommands are the commands that scripts run. ZREM comes first, because a full server refuses nothing that follows a write;
// DEL comes last, because it removes what SET has made.
var scriptCommands = []string{
	"ZREM queue member", "SET lock 1 PX 1000", "GET lock", "EXISTS lock", "MGET lock", "INCR lock", "PTTL lock", "PEXPIRE lock 1000",
	"ZADD queue XX 1 member", "ZCARD queue", "ZPOPMIN queue", "TIME", "PUBLISH channel probe", "DEL lock",
}
