package zookeeper

import "time"

// A handshake keeps its session alive at the servers, also when the answer never arrives: one way of the link may be
// broken. A client that tries again and again would keep the keys of leases that it has lost itself.

// mayShake reports whether another handshake may be sent, and counts it. The first one on the end of a connection always
// may: it tells whether the session lives. Then there must be something to save: a lease that is live; or the places of waiters,
// for as long as the servers may keep them, unless there is a node that they should not keep.
//
// fresh is a handshake for a new session. There is one in the life of s: what was queued for the first would run under the second.
func (s *session) mayShake(fresh bool) bool {
	s.mu.Lock()
	begun, first := s.id != 0, s.shakes == 0
	s.shakes++
	lives, orphaned := s.livesLocked(), false
	for d := range s.doomed {
		orphaned = orphaned || d.orphan
	}
	s.mu.Unlock()
	switch {
	case fresh:
		return !begun
	case first:
		return true
	}
	now, bound := time.Now(), s.contact.bound()
	for _, l := range lives {
		if now.Before(bound) && now.Before(l.Deadline()) {
			return true
		}
	}
	_, until := s.contact.heard() // not the bound: waiters write once, and it may have passed long ago
	return len(lives) == 0 && !orphaned && now.Before(until)
}
