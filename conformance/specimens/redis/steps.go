package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// names are the keys of Redis that a key has: its lock, and the counter of its tokens.
func names(key string) []string { return []string{lockName(key), "specimen:token:" + key} }

func lockName(key string) string { return "specimen:lock:" + key }

// takeScript grants the key to an owner with a token, or returns the holder. A repeated request by the same owner gets
// the same reply.
var takeScript = redis.NewScript(`
local owner = redis.call('GET', KEYS[1])
if not owner then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {redis.call('INCR', KEYS[2]), ARGV[1], 0}
elseif owner == ARGV[1] and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {tonumber(redis.call('GET', KEYS[2]) or 0), owner, redis.call('PTTL', KEYS[1])}`)

// take asks in one script: nothing can come between the key and its expiry.
func take(ctx context.Context, s *store, r backend.Request) (answer, error) {
	return parse(takeScript.Run(ctx, s.client, names(r.Key), r.Owner, r.TTL.Milliseconds()).Slice())
}

// prolongScript prolongs the lock of its owner only.
var prolongScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

func prolong(ctx context.Context, s *store, key, owner string, ttl time.Duration) error {
	return Done(prolongScript.Run(ctx, s.client, names(key), owner, ttl.Milliseconds()).Int())
}

// removeScript removes the lock of its owner only: nothing can come between the comparison and the removal.
var removeScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

func remove(ctx context.Context, s *store, key, owner string) error {
	return Done(removeScript.Run(ctx, s.client, names(key), owner).Int())
}

var inspectScript = redis.NewScript(`
local owner = redis.call('GET', KEYS[1])
if not owner then return {0, '', 0} end
return {tonumber(redis.call('GET', KEYS[2]) or 0), owner, redis.call('PTTL', KEYS[1])}`)

func look(ctx context.Context, s *store, key string) (answer, error) {
	return parse(inspectScript.Run(ctx, s.client, names(key)).Slice())
}

// ask returns when ctx ends, also while the client waits for an answer. The request runs on until its timeout.
func ask(ctx context.Context, s *store, request request, late func()) (answer, error) {
	return specimens.Ask(ctx, context.WithoutCancel(ctx), &s.calls, Timeout, request, late)
}

// wait polls. Each refusal has the time at which the key will be free at the latest.
func wait(ctx context.Context, _ *store, _ backend.Request, try try) (backend.Lease, error) {
	const patience = 10 * time.Second
	return specimens.Poll(ctx, kit.Pause{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond}, patience, try)
}

// parse reads the answer of a script: token, owner, milliseconds left.
func parse(reply []any, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	const fields = 3
	if len(reply) == fields {
		token, _ := reply[0].(int64)
		owner, _ := reply[1].(string)
		left, ok := reply[2].(int64)
		if ok {
			return answer{uint64(token), owner, time.Duration(left) * time.Millisecond}, nil
		}
	}
	return answer{}, fmt.Errorf("unexpected reply %v", reply)
}

// Done returns the error of a script that changes the lock of an owner, and returns how many it has found.
func Done(n int, err error) error {
	if err == nil && n == 0 {
		return backend.ErrLost
	}
	return err
}
