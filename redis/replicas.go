package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// errReplicas means that a grant or renewal has not reached enough replicas. A grant is given back.
var errReplicas = fmt.Errorf("%w: too few replicas have the lease", backend.ErrUnavailable)

// sendAcked sends the script and WAIT in one pipeline: on one connection, because WAIT speaks of what its own connection
// has done before, and in one round trip.
func (b *Backend) sendAcked(ctx context.Context, q request) (any, error) {
	node, err := b.node(ctx, q.keys[0])
	if err != nil {
		return nil, err
	}
	var v any
	var short error
	for _, text := range []bool{false, true} {
		pipe := node.Pipeline()
		cmd := q.command(ctx, text)
		_ = pipe.Process(ctx, cmd)
		wait := b.queueWait(ctx, pipe)
		_, _ = pipe.Exec(ctx) // each command has its own error
		if v, err = cmd.Result(); isNoScript(err) {
			continue
		}
		short = b.shortfall(wait)
		break
	}
	if redis.HasErrorPrefix(err, "MOVED") {
		b.reloadSlots(ctx)
	}
	if err != nil {
		return nil, err
	}
	if short != nil && isKept(v) {
		return nil, short
	}
	return v, nil
}

// isKept reports whether a script's answer tells of a grant or a renewal; others have changed nothing that must be kept.
func isKept(v any) bool {
	if _, granted := v.(string); granted {
		return true
	}
	list, _ := v.([]any)
	return len(list) > 0 && list[0] == renewDone
}

// shortfall is the error of a WAIT that too few replicas have answered.
func (b *Backend) shortfall(wait *redis.Cmd) error {
	acks, err := wait.Int64()
	if err == nil && acks < int64(b.options.MinReplicas) {
		err = fmt.Errorf("%w: %d of %d", errReplicas, acks, b.options.MinReplicas)
	}
	return err
}

// queue adds the script to a pipeline, by its digest or with its text.
func (s script) queue(ctx context.Context, pipe redis.Pipeliner, text bool, keys []string, args []any) *redis.Cmd {
	if text {
		return pipe.Eval(ctx, s.text, keys, args...)
	}
	return pipe.EvalSha(ctx, s.digest, keys, args...)
}

// queueWait adds WAIT to a pipeline, for half of the time that is left, so that its answer arrives.
func (b *Backend) queueWait(ctx context.Context, pipe redis.Pipeliner) *redis.Cmd {
	left := b.options.Timeout
	if d, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(d))
	}
	ms := max(left.Milliseconds()/2, 1) // 0 would wait forever
	return pipe.Do(ctx, "WAIT", b.options.MinReplicas, ms)
}

// node is the client of the one server that has key: a pipeline of a cluster's client would send WAIT to any server.
func (b *Backend) node(ctx context.Context, key string) (*redis.Client, error) {
	switch c := b.client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	}
	return nil, fmt.Errorf("no single server behind a client of type %T", b.client)
}

func (b *Backend) reloadSlots(ctx context.Context) {
	if c, ok := b.client.(*redis.ClusterClient); ok {
		c.ReloadState(ctx)
	}
}
