package conformance_test

import (
	"strings"
	"time"
)

// restartEmpty makes the server forget everything.
func (s *server) restartEmpty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	s.emptied++
	s.created, s.creating = false, false
	for _, e := range s.keys {
		e.owner, e.client, e.queue = "", nil, nil
		for _, r := range e.readers {
			r.timer.Stop()
		}
		e.readers = nil
	}
	if !s.is("emptied store parks waiters") {
		close(s.kick)
		s.kick = make(chan struct{})
	}
}

// restart makes the server forget its waiters. The server keeps leases and tokens.
func (s *server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is("tokens restart with the store") {
		clear(s.tokens)
	}
	s.restarts++
	for key, e := range s.keys {
		waited := len(e.queue) > 0
		if e.odd.shared && e.owner == "" && len(e.readers) == 0 {
			s.forgetsToken(restartTokens, key)
		}
		e.queue = s.queueOverRestart(e.queue)
		for _, r := range e.readers {
			r.before = true
			s.forgetsToken("tokens of keys that readers hold restart with the store", key)
		}
		s.restartLocked(key, e)
		s.restartsNarrowly(e, waited)
		s.restartsAfter(key, e)
		if e.owner != "" && s.is("tokens of held keys restart with the store") {
			delete(s.tokens, key)
		}
		switch {
		case s.is(forgetsReaders) && strings.Contains(key, "\x00"):
			e.readers = nil
		case s.is("restart drops readers"):
			e.readers = nil
		case s.is("restart puts renewed readers back to their first TTL"):
			for _, r := range e.readers {
				s.extendReader(key, e, r, r.granted.Add(r.ttl))
			}
		case s.is("restart keeps dead readers"):
			for _, r := range e.readers {
				s.extendReader(key, e, r, time.Now().Add(r.ttl+time.Hour))
			}
		case s.is("restart drops leases"):
			e.owner = ""
		case s.is("restart puts leases back to their first TTL"):
			e.expires = e.granted.Add(e.ttl)
		case s.is("restart begins leases anew for their first TTL"):
			e.expires = time.Now().Add(e.ttl)
		}
	}
	s.lastRestart = time.Now()
	close(s.kick)
	s.kick = make(chan struct{})
}
