package conformance

import (
	"unicode/utf8"

	"github.com/anylock/lock/backend"
)

// joints are what a store may put between the key and the owner in the name of a record.
var joints = []string{":", "::", "/", "-", "_", ".", ",", ";", "|", "@", "#", "=", "+", "~", " ", "!", "$", "%", "&"}

// joinedPair returns two pairs of a key and an owner which are equal if joint is between each key and its owner.
func (t *trial) joinedPair(joint string) (keys, owners [2]string) {
	key, middle, owner := t.newKey(), letters(), letters()
	return [2]string{key, key + joint + middle}, [2]string{middle + joint + owner, owner}
}

// ownersOfKeysApart makes owners wait, each for its own key, whose records a store may take for one. The first one
// gives up, which must not touch the second. Where readers can share a key, the first and the second also hold
// leases.
func (t *trial) ownersOfKeysApart() {
	t.inChunks(len(joints), 4, func(i int) {
		keys, owners := t.joinedPair(joints[i])
		held := []*grant{t.acquire(t.a, keys[0], t.long()), t.acquire(t.b, keys[1], t.long())}
		var waits []*waiting
		for j, key := range keys {
			waits = append(waits, t.waitAs(t.client(j), key, owners[j]))
			t.arrived(key, 1)
		}
		waits[0].cancelAndFail(t)
		t.queueAtMostOf(keys[0], 0)
		waits[1].stillWaits(t, held[1], t.rule)
		for _, g := range held {
			t.release(g)
		}
		t.release(waits[1].granted(t, t.handOff(), "after release, and a waiter for "+show(keys[0])+" that gave up"))
		t.becomesFree(t.b, keys[0], t.handOff(), "after release")
	})
}

// readersOfKeysApart is ownersOfKeysApart for readers that hold their keys.
func (t *trial) readersOfKeysApart() {
	t.inChunks(len(joints), 3, func(i int) {
		keys, owners := t.joinedPair(joints[i])
		first, second := t.readAs(t.a, keys[0], owners[0]), t.readAs(t.client(i), keys[1], owners[1])
		when := "beside a reader of " + show(keys[1])
		t.holdersAre([]*grant{first}, when)
		t.renew(first, 2*t.long())
		t.release(first)
		t.mustBeFree(t.b, keys[0], "after its only reader's release, "+when)
		t.readersKeepOut([]*grant{second}, "after the release of a reader of "+show(keys[0]))
		t.release(second)
		t.mustBeFree(t.a, keys[1], "after its only reader's release")
	})
}

// servesOwner makes every kind of request for an owner, and for waiters whose names are like it.
func (t *trial) servesOwner(owner string, shared bool) {
	key := t.newKey()
	r := backend.Request{Key: key, Owner: owner, TTL: t.long(), Shared: shared}
	rest := owner
	if len(owner) == backend.MaxOwnerLen {
		_, first := utf8.DecodeRuneInString(owner)
		rest = owner[first:]
	}
	var held *grant
	if shared {
		held = t.readAs(t.a, key, owner)
	} else {
		held = t.acquireAs(t.a, key, owner)
	}
	t.describes(held, t.long())
	t.refusedBy(t.b, held, 0)
	leaves := t.waitAs(t.b, key, "l"+rest)
	t.arrived(key, 1)
	leaves.cancelAndFail(t)
	t.queueAtMostOf(key, 0)
	r.Owner, r.Wait, r.Shared = "w"+rest, true, t.g.Shared && !shared
	w := t.begin(t.ctx, t.b, r)
	t.arrived(key, 1)
	for _, way := range t.renewals() {
		t.renewBy(held, t.long(), func() error { return way.renew(t.ctx, held, t.long()) })
	}
	if _, ok := t.b.(backend.Resumer); ok {
		held = t.resume(t.b, held, t.long())
	}
	t.breakOrRelease(t.b, held)
	next := w.granted(t, t.handOff(), "after the end of the lease of owner "+show(owner))
	if h := t.inspect(key); h.Owner != next.owner {
		t.breaksText(inspectRule, "Inspect says that %s holds the key, want %s", show(h.Owner), show(next.owner))
	}
	t.release(next)
	t.becomesFree(t.a, key, t.handOff(), "after the lease of owner "+show(owner))
}
