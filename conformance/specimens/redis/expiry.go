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
		Story: "SETNX takes the key and EXPIRE gives it its end, in two commands. A client that dies between the two, by a crash, " +
			"a deployment or a machine without memory, leaves a key that never ends, and nobody can take it again. It happens " +
			"once in months, and always at night. SET has had NX and EX together since Redis 2.6.12, in 2013, and the two " +
			"commands are in tutorials to this day.",
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
		Story: "SETNX takes the key, DEL gives it back, and that is all. It works until the first holder dies in between: its " +
			"key stays for ever, and people learn to delete it by hand, which takes it from a living holder sooner or later. " +
			"redis-py's Lock does it still, as its timeout is None unless the caller sets another.",
		See:    "redis-py lock.py: timeout=None, the lock remains until release() is called",
		Right:  "Every lock has an expiry, and a live holder prolongs it.",
		Sin:    []string{"takeForEver"},
		Virtue: []string{"takeScript"},
		Open:   open(func(s *store) { s.take = takeForEver }),
		Kills:  []specimens.Kill{{Check: "TTLNotLate", Says: "still refused to an attempt made"}},
	},
	{
		Name:  "whole-seconds",
		Title: "An expiry truncated to whole seconds",
		Story: "EXPIRE and SET EX count in seconds, and int(ttl.Seconds()) cuts what is over: a lock of 1.9 s lives for one " +
			"second, and its holder believes in it for 0.9 s more. One of less than a second would be refused by the server, so " +
			"that somebody has put a max(1, ...) around it.",
		See:    "Redis manual, SET page: EX counts in seconds, PX in milliseconds",
		Right:  "PX with milliseconds, rounded up: a TTL is a floor.",
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
