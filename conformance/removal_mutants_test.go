package conformance_test

import (
	"slices"
	"strings"
	"time"
)

const (
	secondRemoval  = "removal of a client's second lease of a key in a row is reported by a renewal alone"
	prefixRemoval  = "removal of a lease is reported to holders of keys that its key begins with"
	fewRemovals    = "of removals at once the client hears of 16"
	siblingRemoval = "removal of a reader whose client reads the key already is reported by a renewal alone"
	crowdTimer     = "release of a lease between others stops the timer of the one that ends last"

	ownRemoval       = "removal by Break of its own client is reported by a renewal alone"
	restartedRemoval = "removal after a restart is reported by a renewal alone"
)

// removalMutants are bugs of notifications of losses, where a client has several leases.
var removalMutants = []mutant{
	{secondRemoval, "RemovedHolderIsNotified"},
	{prefixRemoval, "RemovedHolderIsNotified"},
	{fewRemovals, "RemovedHolderIsNotified"},
	{siblingRemoval, "RemovedHolderIsNotified"},
	{ownRemoval, "RemovedHolderIsNotified"},
	{restartedRemoval, "RestartKeepsOddKeys"},
}

// reportsPrefixes reports the removal of the lease of key to the holders of keys that it begins with, as a bug.
func (s *server) reportsPrefixes(key string, broken bool) {
	if !s.is(prefixRemoval) {
		return
	}
	for other, e := range s.keys {
		if other != key && e.owner != "" && strings.HasPrefix(key, other) {
			s.notifyClient(e.client, e, broken)()
		}
	}
}

// missesRemoval reports whether the client does not hear of a removal because of others at the same time, as a bug.
func (c *client) missesRemoval() bool {
	const most, awhile = 16, 20 * time.Millisecond
	if !c.is(fewRemovals) {
		return false
	}
	if c.meeting.removals.Add(1) > most {
		return true
	}
	time.AfterFunc(awhile, func() { c.meeting.removals.Add(-1) })
	return false
}

// readsAlready reports whether client c has a shared lease of e's key.
func (e *entry) readsAlready(c *client) bool {
	return slices.ContainsFunc(e.readers, func(r *reader) bool { return r.client == c })
}

// stopsLast makes Lost of the live lease that ends last close late, if b ends neither first nor last, as a bug.
func (b *bent) stopsLast() {
	if !b.is(crowdTimer) || b.endsFirst() {
		return
	}
	last := b
	b.c.live.Range(func(o, _ any) bool {
		if other := o.(*bent); other.Life.Deadline().After(last.Life.Deadline()) {
			last = other
		}
		return true
	})
	if last != b {
		last.alone.late.Store(true)
	}
}
