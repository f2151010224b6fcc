package conformance_test

import (
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/conformance"
)

// tellsLoss is no bug: a store that tells a holder whose lease somebody has removed.
const notifiesLoss = "notifies holders of losses"

// stores that claim to tell a holder that its lease was removed
var removedMutants = []mutant{
	{"removal is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal by Break is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal of a renewed lease is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal of a lease that was waited for is reported by a renewal alone", "RemovedHolderIsNotified"},
	{"removal of one lease is reported to every holder of its client", "RemovedHolderIsNotified"},
	{"removal is reported and nothing removed", "RemovedHolderIsNotified"},
	{"OnLost is not called when the store reports the loss", "RemovedHolderIsNotified"},
	{"OnLost is not called when the store reports the loss", "OnLostCallsWhateverEndsIt"},
	{"OnLost calls twice when the store reports the loss", "RemovedHolderIsNotified"},
	{"OnLost calls twice when the store reports the loss", "OnLostCallsWhateverEndsIt"},
}

// tells reports whether the store claims to tell of removals.
func (s *server) notifies() bool {
	is := func(m mutant) bool { return m.bug == s.bug }
	return s.is(notifiesLoss) || slices.ContainsFunc(removedMutants, is) || slices.ContainsFunc(reconnectLossMutants, is)
}

// tell returns what tells the holder of e that its lease is being removed. Those behind a wire learn of it when they are connected.
func (s *server) notify(e *entry, broken bool) func() {
	c, owner := e.client, e.owner
	switch {
	case s.notifies() && c != nil && c.wire != nil:
		return s.notifyThrough(c, e)
	case !s.notifies() || c == nil,
		s.is("removal is reported by a renewal alone"),
		s.is("removal by Break is reported by a renewal alone") && broken,
		s.is("removal of a renewed lease is reported by a renewal alone") && !e.renewed.IsZero(),
		s.is("removal of a lease that was waited for is reported by a renewal alone") && e.waited:
		return func() {}
	}
	return func() {
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

// remove ends the lease of e, and tells its holder.
func (s *server) removeLocked(key string, e *entry, broken bool) {
	told := s.notify(e, broken)
	if !s.is("removal is reported and nothing removed") {
		s.endLocked(key, e)
	}
	told()
}

func TestNotifiesLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := regexp.MustCompile("^(RemovedHolderIsNotified|ReconnectedHolderIsNotified|BreakEndsOneLease|OnLostCallsWhateverEndsIt)$")
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
