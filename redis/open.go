package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/calls"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// begin contacts the servers once, rejects those that cannot keep locks, and adds to the guarantees how the servers may
// lose keys. If it fails, it closes the Backend.
func (b *Backend) begin(ctx context.Context) error {
	// When this time is over, Close must not wait for a client that ignores deadlines.
	limited, cancel := context.WithTimeout(ctx, endpoint.OpenTimeout)
	defer cancel()
	losses, err := inspectServers(ctx, b, b.findLosses)
	if err != nil {
		calls.CloseUnopened(limited, b)
		return err
	}
	for _, loss := range losses {
		b.guarantees.EarlyLoss += "; " + loss
	}
	return nil
}

// inspectServers runs f, which inspects the servers, within OpenTimeout.
func inspectServers[T any](ctx context.Context, b *Backend, f func(context.Context) ([]T, error)) ([]T, error) {
	return kit.Call(ctx, b.leases, nil, func(ctx context.Context) ([]T, error) {
		list, err := exchange.Await(ctx, b.leases.Go, endpoint.OpenTimeout, f)
		return list, exchange.Unavailable(ctx, err)
	})
}

// findLosses inspects the masters, and returns how they may lose keys.
func (b *Backend) findLosses(ctx context.Context) ([]string, error) {
	losses, err := onMasters(ctx, b, b.inspectServer)
	if err == nil {
		err = b.probe(ctx) // one master is representative
	}
	slices.Sort(losses)
	return slices.Compact(losses), err
}

func (b *Backend) inspectServer(ctx context.Context, where string, c redis.Cmdable) (losses []string, err error) {
	text, err := c.Info(ctx).Result()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return []string{"eviction, unless maxmemory-policy is noeviction (INFO is not permitted)"}, nil
	}
	if err != nil {
		return nil, err
	}
	info := endpoint.ParseInfo(text)
	switch {
	case info["role"] == "slave":
		return nil, errors.New("the server is a read-only replica: locks live on the master")
	case info["cluster_enabled"] == "1" && where == "":
		return nil, errors.New("the server belongs to a cluster: use redis+cluster://")
	}
	master := masterReading{Reading: endpoint.Reading{Info: info}, replicas: b.options.MinReplicas}
	for _, f := range kit.Apply(rules, where, master) {
		if loss, ok := lossesByCode[f.Code]; ok {
			losses = append(losses, loss+", because "+f.Found)
		}
	}
	return losses, nil
}

// lossesByCode are the findings that show how a master may lose keys.
var lossesByCode = map[string]string{
	"eviction-policy": "eviction", "min-replicas-unset": "a partition", "min-replicas-ignored": "a partition",
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
// write; DEL comes last, because it removes the key of SET. PEXPIRE follows INCR, which creates a key without an expiry
// if SET fails.
var scriptCommands = []string{
	"ZREM queue member", "SET lock 1 PX 1000", "GET lock", "EXISTS lock", "MGET lock", "INCR lock", "PTTL lock",
	"PEXPIRE lock 1000",
	"ZADD queue XX 1 member", "ZCARD queue", "ZCOUNT queue 0 1", "ZPOPMIN queue", "ZRANGE queue 0 0",
	"ZREMRANGEBYSCORE queue 0 1",
	"ZSCORE queue member", "TIME", "PUBLISH channel probe", "DEL lock",
}
