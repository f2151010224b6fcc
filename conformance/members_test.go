package conformance_test

import (
	"sync"
	"time"

	"github.com/anylock/lock/conformance"
)

// member returns one of the servers on which the store runs. When one member fails, the others elect a leader, and the
// store serves again after a moment. If another member has restarted and has not caught up, the store stops until the
// failed member returns.
func (s *server) member() conformance.Member {
	const election = 50 * time.Millisecond
	thaw := func() {}
	away := func() {
		if s.apart {
			s.gate.Lock()
			thaw = sync.OnceFunc(s.gate.Unlock)
			return
		}
		s.gate.Lock()
		time.Sleep(election) // sleeps: the cluster has no leader
		s.gate.Unlock()
	}
	back := func() {
		thaw()
		s.apart = true
	}
	return s.losesWith(conformance.Member{
		Freeze: func() {
			if s.is("one frozen member stops the service") {
				s.gate.Lock()
				thaw = sync.OnceFunc(s.gate.Unlock)
				return
			}
			away()
		},
		Thaw: func() {
			back()
			if s.is("a member that goes on frees what it was asked for long ago") {
				s.mu.Lock()
				defer s.mu.Unlock()
				for key, e := range s.keys {
					s.endLocked(key, e)
				}
			}
		},
		Stop: func() {
			away()
			switch {
			case s.is("a member's end takes its waiters along"):
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, e := range s.keys {
					e.queue = nil
				}
			case s.is("a member's end takes its leases along"):
				s.restartWithout(func() { clear(s.keys) })
			}
		},
		Start: back,
		StartEmpty: func() {
			back()
			if s.is("an empty member counts tokens anew") {
				s.restartWithout(func() { clear(s.tokens) })
			}
			if s.is("an empty member votes at once") {
				s.restartWithout(func() {
					for _, e := range s.keys {
						e.owner = ""
					}
				})
			}
		},
	})
}

func (s *server) restartWithout(lose func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lose()
	close(s.kick)
	s.kick = make(chan struct{})
}
