package conformance_test

import (
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// notifiesLoss is not a bug. With it, the store notifies the holder of a removed lease.
const notifiesLoss = "notifies holders of losses"

// removedMutants are bugs of stores that claim to notify a holder of the removal of its lease.
var removedMutants = []mutant{
	{"removal of a reader is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal is reported to the next holder of its client too", "RemovedHolderIsNotified"},
	{"removal is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal by Break is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal of a renewed lease is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal of a lease that was waited for is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal of a lease renewed in a batch is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal of a resumed lease is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal of one lease is reported to every holder of its client", "RemovedHolderIsNotified"},
	{"removal is reported and nothing removed", "RemovedHolderIsNotified"},
	{"OnLost is not called when the store reports the loss", "RemovedHolderIsNotified"},
	{"OnLost is not called when the store reports the loss", "OnLostCallsWhateverEndsIt"},
	{"OnLost calls twice when the store reports the loss", "RemovedHolderIsNotified"},
	{"OnLost calls twice when the store reports the loss", "OnLostCallsWhateverEndsIt"},
}

// notifies reports whether the store claims to notify holders of removals.
func (s *server) notifies() bool {
	is := func(m mutant) bool { return m.bug == s.bug }
	return s.is(notifiesLoss, brokenUnnotified, notifiesWaited) || slices.ContainsFunc(removedMutants, is) ||
		slices.ContainsFunc(reconnectLossMutants, is) ||
		slices.ContainsFunc(narrowLossMutants, is) || slices.ContainsFunc(removalMutants, is) ||
		slices.ContainsFunc(amongReadersLossMutants, is)
}

// notify returns a function that notifies the holder of e of a removal, and the client that has resumed the lease.
func (s *server) notify(e *entry, broken bool) func() {
	holder := s.notifyClient(e.client, e, broken)
	if e.resumedBy == nil || e.resumedBy == e.client || s.is("removal of a resumed lease is reported by a renewal alone") {
		return holder
	}
	resumer := s.notifyClient(e.resumedBy, e, broken)
	return func() { holder(); resumer() }
}

// notifyClient returns a function that notifies client c of the removal of the lease of e. A client behind a wire is
// notified once it is connected.
func (s *server) notifyClient(c *client, e *entry, broken bool) func() {
	owner := e.owner
	switch {
	case s.notifies() && c != nil && c.wire != nil:
		return s.notifyThrough(c, e)
	case !s.notifies() || c == nil,
		s.is("removal is reported by a renewal alone"),
		s.is("removal by Break is reported by a renewal alone") && broken,
		s.is("removal of a renewed lease is reported by a renewal alone") && !e.renewed.IsZero(),
		s.is("removal of a lease renewed in a batch is reported by a renewal alone") && e.inBatch,
		s.is("removal of a lease that was waited for is reported by a renewal alone") && e.waited,
		s.is(secondRemoval) && e.again, c.missesRemoval(),
		s.is(ownRemoval) && broken && s.breaker.Load() == c, s.is(restartedRemoval) && s.restarts > 0:
		return func() {}
	}
	return func() {
		if s.is("removal is reported to the next holder of its client too") {
			s.reportsToNext(c, owner)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range c.lives {
			if l.Owner() == owner || s.is("removal of one lease is reported to every holder of its client") {
				const underWay = 20 * time.Millisecond
				time.AfterFunc(underWay, func() {
					c.pushed.Store(l.Owner(), true)
					l.Lose()
				})
			}
		}
	}
}

// reportsToNext reports the removal of owner's lease to every lease of c on the same key, also to one granted before
// the message arrives.
func (s *server) reportsToNext(c *client, owner string) {
	const underWay = 20 * time.Millisecond
	time.AfterFunc(underWay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.IndexFunc(c.lives, func(l *kit.Life) bool { return l.Owner() == owner })
		for _, l := range c.lives {
			if i >= 0 && l.Key() == c.lives[i].Key() {
				l.Lose()
			}
		}
	})
}

// notifyReader is notify for a reader.
func (s *server) notifyReader(r *reader, broken bool) func() {
	if s.is("removal of a reader is reported by a renewal alone") || r.sibling && s.is(siblingRemoval) ||
		r.parked && s.is(notifiesWaited) {
		return func() {}
	}
	return s.notify(&entry{owner: r.owner, client: r.client, resumedBy: r.resumedBy}, broken)
}

// removeLocked ends the lease of e, and notifies its holder.
func (s *server) removeLocked(key string, e *entry, broken bool) {
	notifyHolder := s.notify(e, broken)
	if !s.is("removal is reported and nothing removed") {
		s.endLocked(key, e)
	}
	notifyHolder()
	s.reportsPrefixes(key, broken)
}

func TestNotifiesLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := regexp.MustCompile("^(RemovedHolderIsNotified|ReconnectedHolderIsNotified|" +
			"BreakEndsOneLease|OnLostCallsWhateverEndsIt|RestartKeepsOddKeys)$")
		results, err := conformance.Execute(t.Context(), newServer(notifiesLoss).harness(), conformance.Options{Run: run})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Status != conformance.Pass {
				t.Errorf("%s: %s: %s", r.Name, r.Status, r.Output)
			}
		}
	})
}
