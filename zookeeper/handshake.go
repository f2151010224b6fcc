package zookeeper

import (
	"time"

	"github.com/anylock/lock/backend"
)

// A handshake keeps its session alive at the servers, also when the answer never arrives: one way of the link may be
// broken. A client that tries again and again would keep the keys of leases that it has lost itself.

// mayShake reports whether another handshake may be sent, and counts it. The first one on the end of a connection always
// may: it tells whether the session lives. Then there must be something to save: a lease that is live, or, if none was
// lost, the places of waiters, for as long as the servers certainly keep them.
func (s *session) mayShake() bool {
	lives, bereft, again := s.leases()
	if !again {
		return true
	}
	if !time.Now().Before(s.contact.bound()) {
		return false
	}
	for _, l := range lives {
		if time.Now().Before(l.Deadline()) {
			return true
		}
	}
	return !bereft
}

// leases counts a handshake, and returns the leases that the session has, whether one was lost since the last
// connection, and whether this is a further handshake of a session that there is.
func (s *session) leases() (lives []*backend.Life, bereft, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.nodes {
		if l, _ := n.lease(); l != nil {
			lives = append(lives, l)
		}
	}
	again = s.id != 0 && s.shakes > 0
	s.shakes++
	return lives, s.bereft, again
}

// bereave notes that a lease was lost. While there is a connection its node is removed by a request.
func (s *session) bereave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bereft = true
}
