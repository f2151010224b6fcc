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
		Story: "SET with NX and PX acquires the lock correctly, but DEL releases it. If a holder was slow, " +
			"because of a garbage collection or the network, its lock may have expired and belong to another client. " +
			"The DEL then frees the key under the new holder, a third client gets in, and the second holder's DEL " +
			"frees the third one's lock. One slow request is enough for a chain of such releases. onexstack's " +
			"distlock releases this way.",
		See: "Redis manual, SET page: remove the key only if its value is the random one that you stored",
		Right: "The value is unique to one acquisition, and a script in the server removes the key only if it " +
			"has that value.",
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
		Story: "The value is unique, and compared before the key is removed, but in two commands: GET, and DEL " +
			"if the value matched. Between the two the key may expire and another client may acquire it; then the DEL " +
			"removes that client's lock. A slow link makes the gap longer, and also makes it likely that a lock is " +
			"released close to its expiry.",
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
		Story: "The key's value is the host and the process, or a configured constant, and the script succeeds " +
			"if the value is already there, so that a repeated request does no harm. But then every goroutine of the " +
			"process gets the lock at once: re-entry by accident. The first release takes the key from all of them. " +
			"onexstack's distlock does this with the host's name, go-zero's RedisLock for goroutines that share one, " +
			"and redsync for a constant GenValueFunc, where a loser's clean-up deletes the winner's key.",
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
		Story: "Without a fencing token, a lock does not protect the resource from a holder that was paused. So " +
			"each client counts its own grants and uses the count as a token. But the numbers of two clients do not " +
			"show who came last: the resource refuses the live holder and accepts the stale one.",
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
