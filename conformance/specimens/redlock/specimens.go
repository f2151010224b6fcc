// Package redlock keeps the famous wrong ways to lock by a majority of Redis servers, and the small store that they are
// made from.
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
		Story: "All nodes are asked, and the first yes is taken for the lock: it is quick, and one client at a time sees nothing " +
			"wrong with it. Two clients that come at once reach different nodes first, and each has its yes. Several servers " +
			"have made the lock weaker than one of them alone.",
		See:    manual + ": N/2+1 of the instances",
		Right:  "More than half of all nodes: any two majorities have a node in common, which says yes to one only.",
		Sin:    []string{"anyNode"},
		Virtue: []string{"majority"},
		Open:   open(func(s *store) { s.enough = anyNode }),
		Kills:  []specimens.Kill{{Check: "OneAttemptWins", Says: "attempts made at the same moment were granted"}},
	},
	{
		Name:  "majority-of-the-reachable",
		Title: "A majority of the nodes that respond",
		Story: "A node that cannot be reached should not be in the way, so it is not counted: two of three that answer are taken " +
			"for a majority of five. In a partition each side has a majority of its own, and a holder on each.",
		See:    manual + "; redsync issue 186, safety under the loss of a minority",
		Right:  "The quorum is fixed by how many nodes there are, not by how many answer.",
		Sin:    []string{"reachable"},
		Virtue: []string{"majority"},
		Open:   open(func(s *store) { s.enough = reachable }),
		Kills:  []specimens.Kill{{Check: "OneAttemptWins", Says: "attempts made at the same moment were granted"}},
	},
	{
		Name:  "revived-keys-count",
		Title: "A renewal that counts the keys it creates",
		Story: "Nodes restart, and keys vanish from them. So that a lock does not shrink to a bare majority, its renewal sets the " +
			"key where it is missing, and counts that as a yes. A lock that has expired, or was another one's in the meantime, " +
			"comes back to life that way, and its holder never hears of the loss.",
		See:    "redsync WithSetNXOnExtend, and issues 147 and 149",
		Right:  "A renewal counts only keys that are still there with its owner. It may repair the others afterwards, uncounted.",
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
		Story: "The client releases on the nodes that said yes, as the others have nothing of it. A node whose answer came too " +
			"late, or got lost, has granted the key all the same: it keeps a vote for nobody until the TTL ends. A few of these " +
			"and no majority is left, while no client holds the key.",
		See:    manual + ": unlock all the instances, even those where the client believes it has not got the lock",
		Right:  "Release on every node, and again where there was no answer.",
		Sin:    []string{"whereWon"},
		Virtue: []string{"everyNode"},
		Open:   open(func(s *store) { s.debtors = whereWon }),
		Kills:  []specimens.Kill{{Check: "CancelRacesAttempt", Says: "the key did not become free"}},
	},
	{
		Name:  "loser-keeps-its-votes",
		Title: "A failed attempt that keeps its votes until they expire",
		Story: "Three clients come at once and each gets one vote of three. All have lost, and the votes that each keeps until the " +
			"TTL ends keep all of them out: the key is held by nobody, for as long as a lease. The more clients try, the longer " +
			"it goes on.",
		See:    manual + ": a client that fails to acquire the majority should release what it has as soon as possible",
		Right:  "Give partial votes back at once, and try again after a random pause.",
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
		Story: "The votes are counted and the lock is valid for its TTL from now on. The first node began to count when it said " +
			"yes: with slow nodes, or a pause of the client between two of them, a part of the majority has expired before the " +
			"holder begins, and another client collects it.",
		See:    manual + ": the validity is the TTL less the time elapsed, less the drift of clocks",
		Right:  "The deadline counts from before the first request. Votes that took longer than the TTL are no lock.",
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
		Story: "Each node is asked with the timeouts of the client library, and all of them are waited for. One node that hangs " +
			"holds up every lock: measured of redsync with one of three nodes stopped, 5.0 s each for lock, extend and unlock of " +
			"a lease of 8 s. What was to survive the loss of a node has become as slow as its slowest.",
		See:    manual + ": a timeout that is small compared to the total auto-release time; redsync issue 140",
		Right:  "A timeout of its own for each node, far shorter than the TTL.",
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
