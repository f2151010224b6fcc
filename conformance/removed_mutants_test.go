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
const tellsLoss = "tells losses"

// stores that claim to tell a holder that its lease was removed
var removedMutants = []mutant{
	{"removal is told by a renewal alone", "RemovedHolderIsTold"},
	{"removal by Break is told by a renewal alone", "RemovedHolderIsTold"},
	{"removal of a renewed lease is told by a renewal alone", "RemovedHolderIsTold"},
	{"removal of a lease that was waited for is told by a renewal alone", "RemovedHolderIsTold"},
	{"removal of one lease is told to every holder of its client", "RemovedHolderIsTold"},
	{"removal is told and nothing removed", "RemovedHolderIsTold"},
	{"OnLost is silent when the store tells", "RemovedHolderIsTold"},
	{"OnLost is silent when the store tells", "OnLostCallsWhateverEndsIt"},
	{"OnLost calls twice when the store tells", "RemovedHolderIsTold"},
	{"OnLost calls twice when the store tells", "OnLostCallsWhateverEndsIt"},
}

// tells reports whether the store claims to tell of removals.
func (s *server) tells() bool {
	is := func(m mutant) bool { return m.bug == s.bug }
	return s.is(tellsLoss) || slices.ContainsFunc(removedMutants, is) || slices.ContainsFunc(reconnectLossMutants, is)
}

// tell returns what tells the holder of e that its lease is being removed. Those behind a wire learn of it when they are connected.
func (s *server) tell(e *entry, broken bool) func() {
	c, owner := e.client, e.owner
	switch {
	case s.tells() && c != nil && c.wire != nil:
		return s.tellThrough(c, e)
	case !s.tells() || c == nil,
		s.is("removal is told by a renewal alone"),
		s.is("removal by Break is told by a renewal alone") && broken,
		s.is("removal of a renewed lease is told by a renewal alone") && !e.renewed.IsZero(),
		s.is("removal of a lease that was waited for is told by a renewal alone") && e.waited:
		return func() {}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range c.lives {
			if l.Owner() == owner || s.is("removal of one lease is told to every holder of its client") {
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
	told := s.tell(e, broken)
	if !s.is("removal is told and nothing removed") {
		s.endLocked(key, e)
	}
	told()
}

func TestTellsLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := regexp.MustCompile("^(RemovedHolderIsTold|ReconnectedHolderIsTold|BreakEndsOneLease|OnLostCallsWhateverEndsIt)$")
		results, err := conformance.Execute(t.Context(), newServer(tellsLoss).harness(), conformance.Options{Run: run})
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
