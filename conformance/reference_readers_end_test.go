package conformance_test

import (
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// parked records that the reader that came last had waited. If beside is set, others held the key before.
func (s *server) parked(key string, e *entry, beside bool) {
	r := e.readers[len(e.readers)-1]
	r.parked, r.beside = true, beside
	if beside && s.is("reader that enters as a writer leaves never ends") {
		s.extendReader(key, e, r, time.Now().Add(noExpiry))
	}
}

// keepBriefReader returns how long the server keeps a shared lease for r, which is ttl without a bug.
func (s *server) keepBriefReader(r backend.Request, ttl time.Duration) time.Duration {
	if r.Wait && r.TTL <= shortest && s.is("wait of a reader for MinTTL is kept for half of it") {
		return ttl / 2
	}
	return ttl
}

// liftsReaders moves waiting readers before the writers, as a bug, when the last reader of e is about to expire.
func (s *server) liftsReaders(e *entry) {
	if len(e.readers) != 1 || !s.is("expiry of the last reader lets in the readers behind the writer") {
		return
	}
	slices.SortStableFunc(e.queue, func(x, y *place) int {
		switch {
		case x.Shared == y.Shared:
			return 0
		case x.Shared:
			return -1
		}
		return 1
	})
}

// leavesGap delays the turn of the first waiter of e for a millisecond, as a bug. Attempts in that time pass it. It
// reports whether it did.
func (s *server) leavesGap(key string, e *entry) bool {
	if len(e.readers) > 0 || len(e.queue) == 0 || e.queue[0].Shared ||
		!s.is("attempt that meets the last reader's release passes a waiting writer") {
		return false
	}
	e.odd.gap = true
	time.AfterFunc(time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.odd.gap && e.owner == "" && len(e.readers) == 0 {
			e.odd.gap = false
			s.endLocked(key, e)
		}
	})
	return true
}

// closesReaders ends the first reader of each key that the closed client c reads, as a bug.
func (s *server) closesReaders(c *client) {
	if !s.is("Close ends the first reader of a key that its client reads") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		if slices.ContainsFunc(e.readers, func(r *reader) bool { return r.client == c }) {
			s.removeReader(key, e, 0)
		}
	}
}

// forgetsTokens makes the tokens of key start anew, as a bug.
func (s *server) forgetsTokens(key, bug string) {
	if s.is(bug) {
		delete(s.tokens, key)
	}
}
