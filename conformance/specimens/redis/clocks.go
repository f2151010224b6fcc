package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

var clocks = []specimens.Specimen{
	{
		Name:  "timestamp-and-getset",
		Title: "SETNX with a timestamp as the value, then GETSET",
		Story: "The value is the time at which the lock ends, by the client's clock. A client that reads a past " +
			"time calls GETSET, and holds the lock if the old value is the one that it read. Redis's manual " +
			"recommended this for years. A client whose clock is ahead finds every lock expired. A client whose clock " +
			"is behind writes locks that look expired. Each client that loses the race of GETSETs has overwritten the " +
			"winner's value.",
		See:    "Redis manual, SETNX page, Design pattern: Locking with SETNX, which now begins with a warning against it",
		Right:  "The server's clock alone decides when a lock ends: a TTL, counted by the server.",
		Sin:    []string{"takeByTime", "timestamp"},
		Virtue: []string{"takeScript"},
		Open: open(func(s *store) {
			s.take, s.prolong, s.remove, s.look = takeByTime, prolongByTime, removeByTime, lookByTime
		}),
		Kills: []specimens.Kill{{Check: "WrongClockEndsNothingEarly", Says: "wrong clock"}},
	},
	{
		Name:  "expiry-by-client-time",
		Title: "PXAT with the client's time",
		Story: "PXAT and PEXPIREAT set the time of the expiry, which the client computes as its own clock plus " +
			"the TTL. A client whose clock is behind sets keys that have already expired: Redis replies OK, and there " +
			"is no key, but the client assumes that it holds the lock. A client whose clock is ahead keeps a dead " +
			"holder's key for longer. rueidislock does this.",
		See:    "rueidislock lock.go",
		Right:  "PX: a duration, counted by the server.",
		Sin:    []string{"takeUntil"},
		Virtue: []string{"take"},
		Open:   open(func(s *store) { s.take = takeUntil }),
		Kills:  []specimens.Kill{{Check: "WrongClockEndsNothingEarly", Says: "wrong clock"}},
	},
	{
		Name:  "token-by-client-time",
		Title: "Fencing tokens from the client's clock",
		Story: "A fencing token must grow with every grant, and time grows. But each client uses its own clock. " +
			"The token of a client whose clock is ahead makes the resource refuse all later holders until their " +
			"clocks catch up, and accept that client's stale writes.",
		See:    "M. Kleppmann, How to do distributed locking",
		Right:  "The server counts, or uses its own clock and the last token, whichever is greater.",
		Sin:    []string{"takeWithTime"},
		Virtue: []string{"takeScript"},
		Open:   open(func(s *store) { s.take = takeWithTime }),
		Kills:  []specimens.Kill{{Check: "WrongClockKeepsOrder", Says: "token"}},
	},
}

// timestamp is the value of a lock that ends at t, by the clock of who writes it.
func timestamp(t time.Time, owner string) string { return fmt.Sprintf("%d %s", t.UnixMilli(), owner) }

func readTimestamp(value string) answer {
	var ms int64
	_, owner, _ := strings.Cut(value, " ")
	_, _ = fmt.Sscan(value, &ms)
	return answer{owner: owner, left: time.Until(time.UnixMilli(ms))}
}

func takeByTime(ctx context.Context, s *store, r backend.Request) (answer, error) {
	name, mine := lockName(r.Key), timestamp(time.Now().Add(r.TTL), r.Owner)
	taken, err := s.client.SetNX(ctx, name, mine, 0).Result()
	if err != nil {
		return answer{}, err
	}
	if !taken {
		value, err := s.client.Get(ctx, name).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return answer{}, err
		}
		if a := readTimestamp(value); a.left > 0 {
			return a, nil
		}
		old, err := s.client.Do(ctx, "GETSET", name, mine).Text()
		if err != nil && !errors.Is(err, redis.Nil) {
			return answer{}, err
		}
		if old != value { // another one was faster
			return readTimestamp(old), nil
		}
	}
	token, err := s.client.Incr(ctx, names(r.Key)[1]).Uint64()
	return answer{token: token, owner: r.Owner}, err
}

// ownTimeScript sets a lock with a time to ARGV[2], or removes it if that is empty, if its owner is ARGV[1].
var ownTimeScript = redis.NewScript(`
local value = redis.call('GET', KEYS[1])
if not value or string.match(value, ' (.*)$') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[2])
return 1`)

func prolongByTime(ctx context.Context, s *store, key, owner string, ttl time.Duration) error {
	return Done(ownTimeScript.Run(ctx, s.client, names(key), owner, timestamp(time.Now().Add(ttl), owner)).Int())
}

func removeByTime(ctx context.Context, s *store, key, owner string) error {
	return Done(ownTimeScript.Run(ctx, s.client, names(key), owner, "").Int())
}

func lookByTime(ctx context.Context, s *store, key string) (answer, error) {
	value, err := s.client.Get(ctx, lockName(key)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return answer{}, err
	}
	if a := readTimestamp(value); a.left > 0 {
		return a, nil
	}
	return answer{}, nil
}

func takeUntil(ctx context.Context, s *store, r backend.Request) (answer, error) {
	a, err := take(ctx, s, r)
	if err == nil && a.owner == r.Owner {
		err = s.client.PExpireAt(ctx, lockName(r.Key), time.Now().Add(r.TTL)).Err()
	}
	return a, err
}

func takeWithTime(ctx context.Context, s *store, r backend.Request) (answer, error) {
	a, err := take(ctx, s, r)
	if err == nil && a.owner == r.Owner {
		a.token = uint64(time.Now().UnixMicro())
	}
	return a, err
}
