package redis

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

var expiry = []specimens.Specimen{
	{
		Name:  "setnx-then-expire",
		Title: "SETNX, then EXPIRE",
		Story: "SETNX acquires the key and EXPIRE sets its expiry, in two commands. A client that dies between " +
			"the two, by a crash, a deployment or a lack of memory, leaves a key that never expires and that nobody " +
			"can acquire again. It is rare, so it is found in production. SET has supported NX and EX together since " +
			"Redis 2.6.12, in 2013, and tutorials still show the two commands.",
		See:    "Redis manual, SETNX and SET pages",
		Right:  "Set the key and its expiry in one command, or in one script.",
		Sin:    []string{"setnxThenExpire"},
		Virtue: []string{"takeScript"},
		Open:   open(func(s *store) { s.take = setnxThenExpire }),
		Kills:  []specimens.Kill{{Check: "KilledInsideAcquire", Says: "after a process was killed inside a request"}},
	},
	{
		Name:  "no-ttl",
		Title: "SETNX without an expiry",
		Story: "SETNX acquires the key, DEL releases it, and there is no expiry. When a holder dies, its key " +
			"remains for ever, and people learn to delete it by hand, which sooner or later takes the lock from a " +
			"live holder. The Lock of redis-py still works this way, because its timeout is None unless the caller " +
			"sets it.",
		See:    "redis-py lock.py: timeout=None, the lock remains until release() is called",
		Right:  "Every lock has an expiry, and a live holder renews it.",
		Sin:    []string{"takeForEver"},
		Virtue: []string{"takeScript"},
		Open:   open(func(s *store) { s.take = takeForEver }),
		Kills:  []specimens.Kill{{Check: "TTLNotLate", Says: "still refused to an attempt made"}},
	},
	{
		Name:  "whole-seconds",
		Title: "An expiry truncated to whole seconds",
		Story: "EXPIRE and SET EX count in seconds, and int(ttl.Seconds()) truncates: a lock of 1.9 s lives for " +
			"one second, and its holder relies on it for 0.9 s more. The server would refuse a TTL below one second, " +
			"so the code has max(1, ...) around it.",
		See:    "Redis manual, SET page: EX counts in seconds, PX in milliseconds",
		Right:  "PX with milliseconds, rounded up: a TTL is a minimum.",
		Sin:    []string{"takeForSeconds"},
		Virtue: []string{"take"},
		Open:   open(func(s *store) { s.take = takeForSeconds }),
		Kills:  []specimens.Kill{{Check: "TTLIsRoundedUp", Says: "granted to a second owner"}},
	},
}

func takeForEver(ctx context.Context, s *store, r backend.Request) (answer, error) {
	if err := s.client.SetNX(ctx, lockName(r.Key), r.Owner, 0).Err(); err != nil {
		return answer{}, err
	}
	return look(ctx, s, r.Key)
}

func setnxThenExpire(ctx context.Context, s *store, r backend.Request) (answer, error) {
	taken, err := s.client.SetNX(ctx, lockName(r.Key), r.Owner, 0).Result()
	if err == nil && taken {
		err = s.client.PExpire(ctx, lockName(r.Key), r.TTL).Err()
	}
	if err != nil {
		return answer{}, err
	}
	return look(ctx, s, r.Key)
}

func takeForSeconds(ctx context.Context, s *store, r backend.Request) (answer, error) {
	r.TTL = max(1, r.TTL/time.Second) * time.Second
	return take(ctx, s, r)
}
