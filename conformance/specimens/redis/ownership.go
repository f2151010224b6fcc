package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

var ownership = []specimens.Specimen{
	{
		Name:  "plain-del",
		Title: "SET NX PX, and a plain DEL",
		Story: "The lock is taken well, by SET with NX and PX, and given back by DEL. A holder that was slow, in a garbage " +
			"collection or behind a slow network, gives back what has expired in the meantime and is another one's by now: the " +
			"DEL frees the key under its new holder, a third one comes in, and the second one frees the third one's lock. One " +
			"slow request is enough for a chain of them. onexstack's distlock releases this way.",
		See:    "Redis manual, SET page: remove the key only if its value is the random one that you stored",
		Right:  "The value is unique to one acquisition, and a script in the server removes the key only if it has that value.",
		Sin:    []string{"plainDel"},
		Virtue: []string{"removeScript", "remove"},
		Open:   open(func(s *store) { s.remove = plainDel }),
		Kills: []specimens.Kill{
			{Check: "SlowReleaseSparesNext", Says: "a second owner was granted the key"},
			{Check: "EvictedReleaseSparesNewHolder", Says: "Release of a lease that the store had dropped: <nil>, want ErrLost"},
		},
	},
	{
		Name:  "get-then-del",
		Title: "A unique value, but GET and then DEL",
		Story: "The value is unique and compared before the key is removed, by two commands: GET, and DEL if it was ours. " +
			"Between the two the key may expire, and another client take it: then the DEL is a plain one. The slower the link, " +
			"the longer the moment, and a lock that is given back close to its expiry is what a slow link makes.",
		See:    "Redis manual, SET page: the script that compares and removes in one step",
		Right:  "Compare and remove in one script; since Redis 8.4 in one command, DELEX with IFEQ.",
		Sin:    []string{"getThenDel"},
		Virtue: []string{"removeScript"},
		Open:   open(func(s *store) { s.remove = getThenDel }),
		Kills:  []specimens.Kill{{Check: "SlowReleaseSparesNext", Says: "a second owner was granted the key"}},
	},
	{
		Name:  "constant-owner",
		Title: "The same owner for every lock of a process",
		Story: "The value of the key is the host and the process, or a constant that a configuration sets, and the script lets " +
			"in whoever has it already, so that a repeated request does no harm. So it lets in every goroutine of the process at " +
			"once: re-entry by accident. Whoever leaves first takes the key away from all. onexstack's distlock does this with the " +
			"host's name, go-zero's RedisLock for goroutines that share one, and redsync for a constant GenValueFunc, where a " +
			"loser's clean-up deletes the winner's key.",
		See:    "redsync issue 126; go-zero core/stores/redis/redislock.go; onexstack/distlock",
		Right:  "An owner is one acquisition: a fresh random number for each.",
		Sin:    []string{"process", "takeAsProcess", "removeAsProcess"},
		Virtue: []string{"take", "remove"},
		Open: open(func(s *store) {
			s.take, s.prolong, s.remove = takeAsProcess, prolongAsProcess, removeAsProcess
		}),
		Kills: []specimens.Kill{
			{Check: "OwnersOfOneClientExclude", Says: "a second owner was granted the key"},
			{Check: "OneAttemptWins", Says: "of"},
		},
	},
	{
		Name:  "token-of-the-client",
		Title: "Fencing tokens counted by each client",
		Story: "A lock without a fencing token does not protect what it guards from a holder that was paused, so each client " +
			"counts its grants and hands out the number. Numbers of two clients say nothing about who came last: the resource " +
			"refuses the live holder and lets the stale one in.",
		See:    "M. Kleppmann, How to do distributed locking: the token must increase with every grant of the lock",
		Right:  "The server counts, in the script that grants the key.",
		Sin:    []string{"takeCounting"},
		Virtue: []string{"takeScript"},
		Open:   open(func(s *store) { s.take = takeCounting() }),
		Kills:  []specimens.Kill{{Check: "TokensIncrease", Says: "token"}},
	},
}

func plainDel(ctx context.Context, s *store, key, _ string) error {
	return s.client.Del(ctx, lockName(key)).Err()
}

func getThenDel(ctx context.Context, s *store, key, owner string) error {
	value, err := s.client.Get(ctx, lockName(key)).Result()
	if errors.Is(err, redis.Nil) || err == nil && value != owner {
		return backend.ErrLost
	}
	if err != nil {
		return err
	}
	return s.client.Del(ctx, lockName(key)).Err()
}

// process is the owner of all that this process locks.
func process() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

func takeAsProcess(ctx context.Context, s *store, r backend.Request) (answer, error) {
	mine := r
	mine.Owner = process()
	a, err := take(ctx, s, mine)
	if a.owner == mine.Owner {
		a.owner = r.Owner // ours: it is granted
	}
	return a, err
}

func removeAsProcess(ctx context.Context, s *store, key, _ string) error {
	return remove(ctx, s, key, process())
}

func prolongAsProcess(ctx context.Context, s *store, key, _ string, ttl time.Duration) error {
	return prolong(ctx, s, key, process(), ttl)
}
