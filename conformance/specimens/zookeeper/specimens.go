package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

// Collection is what ZooKeeper is used for in a wrong way.
var Collection = specimens.Collection{
	Store: "ZooKeeper",
	Twin:  Open,
	Specimens: []specimens.Specimen{
		{
			Name:  "persistent-nodes",
			Title: "Persistent nodes",
			Story: "The nodes of the queue are created with the sequence flag but without the ephemeral flag. This " +
				"works as long as every client deletes its own node. The node of a killed process remains for ever, and " +
				"nobody gets the key until somebody deletes the node by hand.",
			See:    "ZooKeeper manual, “Recipes”, Locks, step 1",
			Right:  "Create the node as ephemeral: it ends with the session.",
			Sin:    []string{"persistent"},
			Virtue: []string{"ephemeral"},
			Open:   wrong(func(w *steps) { w.flags = persistent }),
			Kills:  []specimens.Kill{{Check: "KilledHolderFreesKey", Says: "of another process is still refused"}},
		},
		{
			Name:  "vanished-node-is-success",
			Title: "A deleted own node counts as success",
			Story: "A waiter reads the queue, and waits while there is a node before its own. When its session " +
				"expires, its own node disappears. The loop then finds no node before its own, and returns. go-zookeeper " +
				"opens the next session by itself, so nothing else seems wrong, and the key has two holders.",
			See:    "LingByte/ling-base, ZooKeeper lock",
			Right:  "A waiter whose node has disappeared has lost its place.",
			Sin:    []string{"nobodyBefore"},
			Virtue: []string{"placeLost"},
			Open:   wrong(func(w *steps) { w.gone = nobodyBefore }),
			Kills: []specimens.Kill{{Check: "PartitionedWaiterLeavesQueue",
				Says: "was granted the key while the next one holds it"}},
		},
		{
			Name:  "predecessor-gone-is-success",
			Title: "No recheck after the watch fires",
			Story: "A waiter watches the node before its own, which is right, and acquires the key when that node is " +
				"deleted, which is wrong: the node may belong to another waiter that has given up while the holder still " +
				"holds the key. One cancelled waiter leads to two holders. The recipe's “goto 2” reads the queue again.",
			See:    "ZooKeeper manual, “Recipes”, Locks, step 5",
			Right:  "Read the queue again whenever something has changed.",
			Sin:    []string{"myTurn"},
			Virtue: []string{"lookAgain"},
			Open:   wrong(func(w *steps) { w.predecessorGone = myTurn }),
			Kills: []specimens.Kill{{Check: "CancelledWaiterDelaysNextBriefly",
				Says: "was granted the held key when the one before it was cancelled"}},
		},
		{
			Name:  "create-without-recovery",
			Title: "A failed create without recovery",
			Story: "Create fails because its connection broke or the caller's context ended, and the client returns " +
				"the error. But the server may have created the node. Its name ends in a number that only the lost reply " +
				"contained, so its owner cannot recognise it, and the session keeps it alive: the queue stands still. " +
				"go-zookeeper's “protected” create gives up when its own search fails: 8 broken connections left 5 such " +
				"nodes.",
			See:    "CURATOR-45, CURATOR-498; go-zookeeper, CreateProtectedEphemeralSequential, measured for anylock's notes",
			Right:  "Begin the name with a unique mark, and after an error delete nodes with this mark until none is left.",
			Sin:    []string{"giveUp"},
			Virtue: []string{"cleanUp"},
			Open:   wrong(func(w *steps) { w.unknown = giveUp }),
			Kills: []specimens.Kill{
				{Check: "CancelRacesAttempt", Says: "after a cancelled attempt: the key did not become free"},
			},
		},
		{
			Name:  "unlock-by-path",
			Title: "Unlock without checking the holder",
			Story: "Unlock deletes the first node in the key's folder, or the single lock node with version -1, on " +
				"the assumption that the holder's node is its own. This was true before the session expired. Now the node " +
				"belongs to another client, and a third client gets in.",
			See: "ZooKeeper manual, “Recipes”, Locks; locks on one ephemeral node without a sequence",
			Right: "Delete the node that was created for this lease, by its full name. If it is missing, the lease " +
				"was lost.",
			Sin:    []string{"removeFirst"},
			Virtue: []string{"removeOwn"},
			Open:   wrong(func(w *steps) { w.remove = removeFirst }),
			Kills: []specimens.Kill{
				{Check: "EvictedReleaseSparesNewHolder",
					Says: "Release of a lease that the store had dropped: <nil>, want ErrLost"},
			},
		},
		{
			Name:  "held-until-notified",
			Title: "Held until the client reports that the session expired",
			Story: "The lock counts as held until the client library reports that the session has expired. But a " +
				"client learns this from a server, after it has reconnected; while it is cut off, it learns nothing. With " +
				"a session of 4 s, the servers deleted the node after 3.7 s, and the holder was notified after 7.7 s.",
			See:    "ZooKeeper programmer's guide, “Sessions”; Curator tech note 12; measured for anylock's notes",
			Right:  "Count the deadline by the holder's own clock, from before the last write that was acknowledged.",
			Sin:    []string{"noNews"},
			Virtue: []string{"check"},
			Open:   wrong(func(w *steps) { w.confirm = noNews }),
			Kills:  []specimens.Kill{{Check: "PartitionLosesBeforeNext", Says: "a holder that is cut off"}},
		},
	},
}

// wrong opens the store with some steps done in another way.
func wrong(change func(*steps)) specimens.Open {
	return func(ctx context.Context, addrs ...string) (backend.Backend, error) {
		how := right()
		change(&how)
		return open(ctx, how, addrs)
	}
}

// persistent nodes stay when their session ends.
const persistent int32 = zk.FlagSequence

// nobodyBefore has a waiter whose node is not in the queue be the first one.
func nobodyBefore() error { return nil }

// myTurn has a waiter be next when the one before it has gone.
func myTurn() error { return nil }

// giveUp leaves what a create may have done.
func giveUp(*store, *ticket) {}

// removeFirst deletes the holder's node.
func removeFirst(ctx context.Context, s *store, t *ticket) error {
	names, err := s.queue(ctx, t.key)
	if err != nil || len(names) == 0 {
		return errors.Join(err, zk.ErrNoNode)
	}
	return s.delete(ctx, folder(t.key)+"/"+names[0])
}

// noNews is good news: the lease is held as long as the session has not been reported to have expired.
func noNews(_ context.Context, s *store, _ *ticket) error {
	if s.conn.State() == zk.StateExpired {
		return backend.ErrLost
	}
	return nil
}
