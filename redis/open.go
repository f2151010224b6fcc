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
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/calls"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// begin contacts the servers. If it fails, it closes the Backend.
func (b *Backend) begin(ctx context.Context) error {
	// When this time is over, Close must not wait for a client that ignores deadlines.
	limited, cancel := context.WithTimeout(ctx, endpoint.OpenTimeout)
	defer cancel()
	err := b.inspectServers(ctx)
	if err != nil {
		calls.CloseUnopened(limited, b)
	}
	return err
}

// inspectServers contacts the servers once, rejects those that cannot keep locks, and adds to the guarantees how the
// servers may lose keys.
func (b *Backend) inspectServers(ctx context.Context) error {
	v, err := exchange.Await(ctx, b.leases.Go, time.Now().Add(endpoint.OpenTimeout), exchange.Request{},
		func(ctx context.Context) (any, error) { return b.findLosses(ctx) })
	if kit.Ended(ctx) {
		return kit.ContextError(ctx, err)
	}
	if err != nil {
		return exchange.Unavailable(err)
	}
	for _, loss := range v.([]string) {
		b.guarantees.EarlyLoss += "; " + loss
	}
	return nil
}

// findLosses inspects every master, and returns how the masters may lose keys.
func (b *Backend) findLosses(ctx context.Context) ([]string, error) {
	c, ok := b.client.(*redis.ClusterClient)
	if !ok {
		loss, err := b.inspectServer(ctx, b.client, false)
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
		loss, err := b.inspectServer(ctx, node, true)
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
		err = b.probe(ctx) // one master is representative
	}
	return slices.Sorted(maps.Keys(found)), err
}

func (b *Backend) inspectServer(ctx context.Context, c redis.Cmdable, cluster bool) (loss string, err error) {
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
	if info["connected_slaves"] != "" && info["connected_slaves"] != "0" {
		switch _, set := info["min_slaves_good_slaves"]; { // INFO has this field only if min-replicas-to-write is set
		case b.options.MinReplicas == 0 && endpoint.IgnoresMinReplicas(info):
			losses = append(losses, "a partition, because redis "+info["redis_version"]+
				" does not apply min-replicas-to-write to scripts")
		case !set:
			losses = append(losses, "a partition, because min-replicas-to-write is not set on a master with replicas")
		}
	}
	return strings.Join(losses, "; "), nil
}

// probe runs every command of the scripts, on keys of its own.
func (b *Backend) probe(ctx context.Context) error {
	if b.options.MinReplicas > 0 {
		if err := b.client.Do(ctx, "WAIT", 0, 1).Err(); exchange.IsReply(err) && !exchange.Passing(err) {
			return fmt.Errorf("%w: min replicas: %v", backend.ErrUnsupported, err)
		}
	}
	n := b.naming.names("probe:" + b.inbox.id)
	return endpoint.Probe(ctx, b.client, []string{n.lock, n.queue}, b.inbox.channel, scriptCommands)
}

// scriptCommands are the commands of the scripts. ZREM comes first, because a full server refuses no command after a
// write; DEL comes last, because it removes the key of SET.
var scriptCommands = []string{
	"ZREM queue member", "SET lock 1 PX 1000", "GET lock", "EXISTS lock", "MGET lock", "INCR lock", "PTTL lock",
	"PEXPIRE lock 1000",
	"ZADD queue XX 1 member", "ZCARD queue", "ZCOUNT queue 0 1", "ZPOPMIN queue", "ZRANGE queue 0 0",
	"ZREMRANGEBYSCORE queue 0 1",
	"ZSCORE queue member", "TIME", "PUBLISH channel probe", "DEL lock",
}
