package conformance_test

import (
	"fmt"

	"github.com/anylock/lock/backend"
)

const (
	closeHangsUp = "second Close of a client closes the connections of all"
	closeDeafens = "second Close of a client ends the notifications of all"
)

// closeMutants are bugs of Close that show in leases that are still live, and in other clients.
var closeMutants = []mutant{
	{"Close releases the client's leases", "CloseEndsLeases"},
	{"Close releases the client's readers", "CloseEndsLeases"},
	{closeHangsUp, "CloseRefusesLaterCalls"},
	{closeDeafens, "CloseRefusesLaterCalls"},
}

// closesHelpfully releases the leases of a client that is closed, as a bug.
func (s *server) closesHelpfully(c *client) {
	all := s.is("Close releases the client's leases")
	if !all && !s.is("Close releases the client's readers") {
		return
	}
	s.mu.Lock()
	var held []backend.Request
	for key, e := range s.keys {
		if e.client == c && e.owner != "" && all {
			held = append(held, backend.Request{Key: key, Owner: e.owner})
		}
		for _, r := range e.readers {
			if r.client == c {
				held = append(held, backend.Request{Key: key, Owner: r.owner, Shared: true})
			}
		}
	}
	s.mu.Unlock()
	for _, r := range held {
		s.releaseMode(r.Key, r.Owner, r.Shared)
	}
}

// closesAgain applies the bugs of a Close of a client that was closed before.
func (s *server) closesAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closedTwice = true
}

// hungUp returns the error of a request of any client after a client was closed twice, as a bug.
func (s *server) hungUp() error {
	if !s.is(closeHangsUp) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closedTwice {
		return fmt.Errorf("%w: the pool is closed", backend.ErrUnavailable)
	}
	return nil
}

// deaf reports whether waiters miss their turn because a client was closed twice, as a bug.
func (s *server) deaf() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closedTwice && s.is(closeDeafens)
}
