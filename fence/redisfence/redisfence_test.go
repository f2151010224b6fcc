package redisfence_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/fence/redisfence"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) { storetest.VerifyTestMain(m, storetest.GoRedisDials()) }

func connect(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: servers.Redis(t).Addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const exact = 1 << 53 // floating-point numbers are exact up to here

func TestOrder(t *testing.T) {
	c, ctx := connect(t), t.Context()
	set := redisfence.NewScript(`return redis.call("SET", KEYS[1], ARGV[1])`)
	const key, value = "{order}:fence", "{order}:value"
	for _, step := range []struct {
		token uint64
		want  error
		seen  uint64
	}{
		{0, lock.ErrInvalid, 0},
		{9, nil, 0},
		{10, nil, 0}, // more digits, although "10" sorts before "9"
		{10, nil, 0},
		{9, fence.ErrStale, 10},
		{exact + 1, nil, 0},
		{exact, fence.ErrStale, exact + 1},
		{exact + 2, nil, 0},
		{exact + 1, fence.ErrStale, exact + 2},
		{math.MaxInt64 - 1, nil, 0},
		{math.MaxInt64 - 2, fence.ErrStale, math.MaxInt64 - 1},
		{math.MaxInt64, nil, 0},
		{math.MaxInt64 - 1, fence.ErrStale, math.MaxInt64},
		{math.MaxInt64 + 1, lock.ErrInvalid, 0},
	} {
		before := c.Get(ctx, value).Val()
		reply, err := set.Run(ctx, c, key, step.token, []string{value}, step.token).Text()
		after := c.Get(ctx, value).Val()
		if step.want == nil {
			if err != nil || reply != "OK" || after != strconv.FormatUint(step.token, 10) {
				t.Errorf("token %d: reply %q, value %s, error %v", step.token, reply, after, err)
			}
			continue
		}
		if !errors.Is(err, step.want) || after != before {
			t.Errorf("token %d: value %s, was %s, error %v, want %v", step.token, after, before, err, step.want)
		}
		stale := (*fence.StaleError)(nil)
		if errors.As(err, &stale) && *stale != (fence.StaleError{Resource: key, Token: step.token, Seen: step.seen}) {
			t.Errorf("token %d: %+v, want seen %d", step.token, *stale, step.seen)
		}
	}
}

// Lua's numbers cannot distinguish 2^53 from 2^53+1, so the script must compare digits.
func TestNumbersOfLua(t *testing.T) {
	c, ctx := connect(t), t.Context()
	lower, err := c.Eval(ctx, `return tonumber(ARGV[1]) < tonumber(ARGV[2])`, nil, uint64(exact), uint64(exact+1)).Bool()
	if err != nil && !errors.Is(err, redis.Nil) || lower {
		t.Errorf("2^53 < 2^53+1 is %v in Lua (error %v): the digits need not be compared any more", lower, err)
	}
}

// The body may return any value, and its errors are those of go-redis. If the fence key does not hold a token, the body
// does not run.
func TestReplies(t *testing.T) {
	c, ctx := connect(t), t.Context()
	const key = "{replies}:fence\x1b[2J"
	run := func(body string, args ...any) *redis.Cmd {
		return redisfence.NewScript(body).Run(ctx, c, key, 256, []string{"{replies}:value"}, args...)
	}
	if n, err := run(`local seen = KEYS[1] .. ARGV[1] return #seen + #KEYS + #ARGV`,
		"x").Int(); n != len("{replies}:valuex")+2 || err != nil {
		t.Errorf("a number: %d, %v", n, err)
	}
	if _, err := run(`return redis.call("GET", KEYS[1])`).Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("nothing there: error %v", err)
	}
	if err := run(`return redis.call("INCR", KEYS[1], 1)`).Err(); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a wrong command: error %v", err)
	}
	for _, foreign := range []string{"", "x", "-5", "007", "1e9", "7 ", ":", "7:", "7:07", "07:7", "7:7:7", "7:x",
		":0", "0:7"} {
		if err := c.Set(ctx, key, foreign, 0).Err(); err != nil {
			t.Fatal(err)
		}
		err := run(`return redis.call("SET", KEYS[1], "wrong")`).Err()
		if err == nil || err.Error() != `redisfence: the key "{replies}:fence\x1b[2J" holds no token` {
			t.Errorf("the fence is %q: error %v", foreign, err)
		}
	}
	if err := c.Del(ctx, key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.LPush(ctx, key, "256").Err(); err != nil {
		t.Fatal(err)
	}
	if err := run(`return redis.call("SET", KEYS[1], "wrong")`).Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("the fence is a list: error %v", err)
	}
	if n := c.Exists(ctx, "{replies}:value").Val(); n != 0 {
		t.Error("something was written without a check")
	}
}

func TestStorm(t *testing.T) {
	c, ctx := connect(t), t.Context()
	push := redisfence.NewScript(`return redis.call("RPUSH", KEYS[1], ARGV[1])`)
	const first, writers, writes = exact - 100, 8, 100 // the tokens cross the limit
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range writes {
				token := first + rand.Uint64N(1000)
				err := push.Run(ctx, c, "{storm}:fence", token, []string{"{storm}:log"}, token).Err()
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	log := list(ctx, t, c, "{storm}:log")
	for i := range log[1:] {
		if log[i] > log[i+1] {
			t.Fatalf("a write with token %d came after one with %d", log[i+1], log[i])
		}
	}
	if seen := c.Get(ctx, "{storm}:fence").Val(); seen != strconv.FormatUint(log[len(log)-1], 10) {
		t.Errorf("the fence has seen %s, the last write is with %d", seen, log[len(log)-1])
	}
}

// In a cluster, the fence key and the keys of the body must be in one slot.
func TestCluster(t *testing.T) {
	storetest.Long(t, "a cluster of three")
	options := new(redis.ClusterOptions)
	for _, s := range servers.RedisCluster(t, 3) {
		options.Addrs = append(options.Addrs, s.Addr)
	}
	c, ctx := redis.NewClusterClient(options), t.Context()
	defer c.Close()
	set := redisfence.NewScript(`return redis.call("SET", KEYS[1], ARGV[1])`)
	for _, id := range []string{"1", "2", "3", "4", "5", "6"} { // in several slots
		run := func(value string, token uint64) error {
			return set.Run(ctx, c, "{account/"+id+"}:fence", token, []string{value}, token).Err()
		}
		if err := run("{account/"+id+"}:value", 512); err != nil {
			t.Error(err)
		}
		if err := run("{account/"+id+"}:value", 256); !errors.Is(err, fence.ErrStale) {
			t.Errorf("a lower token: error %v", err)
		}
		if err := run("{elsewhere}:value", 512); !redis.HasErrorPrefix(err, "CROSSSLOT") {
			t.Errorf("two slots: error %v", err)
		}
	}
}

func list(ctx context.Context, t *testing.T, c *redis.Client, key string) (numbers []uint64) {
	t.Helper()
	texts, err := c.LRange(ctx, key, 0, -1).Result()
	if err != nil || len(texts) == 0 {
		t.Fatalf("%s: %q, error %v", key, texts, err)
	}
	for _, text := range texts {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}
