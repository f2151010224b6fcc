// Package redlock has well-known wrong ways to lock on a majority of Redis servers, and the small store from which they
// are built.
package redlock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

// Collection is the specimens of Redlock.
var Collection = specimens.Collection{
	Store:     "Redlock",
	Twin:      open(func(*store) {}),
	Specimens: specimens.Join(votes, times),
}

const manual = "Redis manual, Distributed locks page, The Redlock algorithm"

var votes = []specimens.Specimen{
	{
		Name:  "first-node-wins",
		Title: "A grant by any single node is enough",
		Story: "The client sends its request to all nodes, and the first grant counts as the lock. This is fast, " +
			"and works with one client at a time. But two clients at once reach different nodes first, and each gets " +
			"a grant. Several servers make the lock weaker than a single server would.",
		See: manual + ": N/2+1 of the instances",
		Right: "Require more than half of all nodes: any two majorities share a node, which votes for only one " +
			"client.",
		Sin:    []string{"anyNode"},
		Virtue: []string{"majority"},
		Open:   open(func(s *store) { s.enough = anyNode }),
		Kills:  []specimens.Kill{{Check: "OneAttemptWins", Says: "attempts made at the same moment were granted"}},
	},
	{
		Name:  "majority-of-the-reachable",
		Title: "A majority of the nodes that respond",
		Story: "An unreachable node should not block the lock, so it is not counted: two of three nodes that " +
			"reply count as a majority of five. In a partition each side has its own majority, and its own holder.",
		See:    manual + "; redsync issue 186, safety under the loss of a minority",
		Right:  "The quorum depends on the number of nodes, not on the number of replies.",
		Sin:    []string{"reachable"},
		Virtue: []string{"majority"},
		Open:   open(func(s *store) { s.enough = reachable }),
		Kills:  []specimens.Kill{{Check: "OneAttemptWins", Says: "attempts made at the same moment were granted"}},
	},
	{
		Name:  "revived-keys-count",
		Title: "A renewal that counts the keys it creates",
		Story: "Nodes restart and lose keys. To keep more than a bare majority, the renewal creates missing " +
			"keys, and counts them as grants. So it revives a lock that has expired, or that another client has held " +
			"in between, and the holder is not notified of the loss.",
		See:    "redsync WithSetNXOnExtend, and issues 147 and 149",
		Right:  "A renewal counts only keys that still have its owner. It may repair the others afterwards, uncounted.",
		Sin:    []string{"revive"},
		Virtue: []string{"prolong"},
		Open:   open(func(s *store) { s.prolong = revive }),
		Kills: []specimens.Kill{
			{Check: "EvictedRenewRevivesNothing", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
		},
	},
	{
		Name:  "releases-where-it-won",
		Title: "A release only on the nodes that granted the key",
		Story: "The client releases only on the nodes that granted the key. But a node whose reply was late or " +
			"lost has granted the key too, and its vote belongs to nobody until the TTL ends. A few such nodes leave " +
			"no majority, although no client holds the key.",
		See:    manual + ": unlock all the instances, even those where the client believes it has not got the lock",
		Right:  "Release on every node, and repeat if there was no reply.",
		Sin:    []string{"whereWon"},
		Virtue: []string{"everyNode"},
		Open:   open(func(s *store) { s.debtors = whereWon }),
		Kills:  []specimens.Kill{{Check: "CancelRacesAttempt", Says: "the key did not become free"}},
	},
	{
		Name:  "loser-keeps-its-votes",
		Title: "A failed attempt that keeps its votes until they expire",
		Story: "Three clients start at once, and each gets one vote of three. All of them lose, but each keeps " +
			"its vote until the TTL ends. So nobody can get the key for the length of a lease. The more clients try, " +
			"the longer this lasts.",
		See:    manual + ": a client that fails to acquire the majority should release what it has as soon as possible",
		Right:  "Withdraw partial votes at once, and try again after a random pause.",
		Sin:    []string{"keep"},
		Virtue: []string{"lose"},
		Open:   open(func(s *store) { s.lose = keep }),
		Kills:  []specimens.Kill{{Check: "OneAttemptWins", Says: "after the races: the key did not become free"}},
	},
}

var times = []specimens.Specimen{
	{
		Name:  "elapsed-time-ignored",
		Title: "A validity that ignores the time spent on votes",
		Story: "After counting the votes, the client assumes that the lock is valid for its TTL from that " +
			"moment. But the first node counts from its own grant. With slow nodes, or a pause of the client between " +
			"two nodes, part of the majority has expired before the holder begins, and another client gets these " +
			"votes.",
		See: manual + ": the validity is the TTL less the time elapsed, less the drift of clocks",
		Right: "The deadline counts from before the first request. If collecting the votes took longer than the " +
			"TTL, there is no lock.",
		Sin:    []string{"fromNow"},
		Virtue: []string{"right"},
		Open:   open(func(s *store) { s.sent = fromNow }),
		Kills: []specimens.Kill{
			{Check: "LateAnswerCountsFromSending", Says: "the next owner was granted the key"},
			{Check: "DeadlineAnchoredBeforeSend", Says: "the deadline counts from"},
		},
	},
	{
		Name:  "no-patience-of-its-own",
		Title: "No timeout for a single node",
		Story: "The client waits for all nodes, each with the timeouts of the client library. One node that " +
			"hangs delays every lock: with redsync and one of three nodes stopped, lock, extend and unlock of a lease " +
			"of 8 s took 5.0 s each. A lock that should survive the loss of a node is as slow as its slowest node.",
		See:    manual + ": a timeout that is small compared to the total auto-release time; redsync issue 140",
		Right:  "A separate timeout for each node, far shorter than the TTL.",
		Sin:    []string{"libraryTimeout"},
		Virtue: []string{"patience"},
		Open:   open(func(s *store) { s.patience = libraryTimeout }),
		Kills:  []specimens.Kill{{Check: "FrozenMemberLosesNothing", Says: "member 1 of 3 was frozen"}},
	},
}

func anyNode(yes, _, _ int) bool { return yes >= 1 }

func reachable(yes, answered, _ int) bool { return yes >= answered/2+1 }

func revive(ctx context.Context, node *redis.Client, key, owner string, ttl time.Duration) (bool, error) {
	ok, err := prolong(ctx, node, key, owner, ttl)
	if ok || err != nil {
		return ok, err
	}
	return node.SetNX(ctx, name(key), owner, ttl).Result()
}

func whereWon(all []*redis.Client, granted []int) []*redis.Client {
	var nodes []*redis.Client
	for _, i := range granted {
		nodes = append(nodes, all[i])
	}
	return nodes
}

func keep(context.Context, *store, backend.Request, []int) {}

func fromNow(_, after time.Time) time.Time { return after }

// libraryTimeout is go-redis' default to connect.
const libraryTimeout = 5 * time.Second
