package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

func name(key string) string { return "specimen:redlock:" + key }

// A vote is what one node says.
type vote struct {
	yes   bool
	owner string
	left  time.Duration
}

// majority wants more than half of all nodes, whether they can be reached or not: two majorities have a node in common.
func majority(yes, _, all int) bool { return yes >= all/2+1 }

// everyNode may have granted a lock, also one whose answer has not come.
func everyNode(all []*redis.Client, _ []int) []*redis.Client { return all }

// lose gives an attempt's votes back at once, so that the votes of several do not keep them all out.
func lose(ctx context.Context, s *store, r backend.Request, _ []int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	s.poll(ctx, s.nodes, func(ctx context.Context, node *redis.Client) (vote, error) {
		ok, err := remove(ctx, node, r.Key, r.Owner)
		return vote{yes: ok}, err
	}, func() {})
}

var takeScript = redis.NewScript(`
local owner = redis.call('GET', KEYS[1])
if not owner or owner == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {ARGV[1], 0}
end
return {owner, redis.call('PTTL', KEYS[1])}`)

func take(ctx context.Context, node *redis.Client, r backend.Request) (vote, error) {
	return parse(takeScript.Run(ctx, node, []string{name(r.Key)}, r.Owner, r.TTL.Milliseconds()).Slice())
}

var prolongScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

// prolong prolongs what is there. A key that has vanished is no vote.
func prolong(ctx context.Context, node *redis.Client, key, owner string, ttl time.Duration) (bool, error) {
	n, err := prolongScript.Run(ctx, node, []string{name(key)}, owner, ttl.Milliseconds()).Int()
	return n > 0, err
}

var removeScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

func remove(ctx context.Context, node *redis.Client, key, owner string) (bool, error) {
	n, err := removeScript.Run(ctx, node, []string{name(key)}, owner).Int()
	return n > 0, err
}

var lookScript = redis.NewScript(`
local owner = redis.call('GET', KEYS[1])
if not owner then return {'', 0} end
return {owner, redis.call('PTTL', KEYS[1])}`)

func look(ctx context.Context, node *redis.Client, key string) (vote, error) {
	return parse(lookScript.Run(ctx, node, []string{name(key)}).Slice())
}

// parse reads a script's answer: owner, milliseconds left.
func parse(reply []any, err error) (vote, error) {
	if err != nil {
		return vote{}, err
	}
	const fields = 2
	if len(reply) == fields {
		owner, _ := reply[0].(string)
		if left, ok := reply[1].(int64); ok {
			return vote{owner: owner, left: time.Duration(left) * time.Millisecond}, nil
		}
	}
	return vote{}, fmt.Errorf("unexpected reply %v", reply)
}
