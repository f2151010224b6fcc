package zookeeper

import (
	"context"
	"net"
	"time"
)

const maxHandshake = 2 * time.Second

// handshakeLimit returns the time limit of a dial, and of a handshake, so that time remains for another server if one
// hangs. Until each server has been dialled once for a new session, the servers share the timeout of a request.
func (s *session) handshakeLimit() time.Duration {
	const least = 250 * time.Millisecond
	limit := min(max(s.class/4, least), maxHandshake)
	if s.probing {
		limit = maxHandshake
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.b.servers); n > 1 && s.id == 0 && s.dials <= n {
		limit = min(limit, s.b.options.Timeout/time.Duration(n+1))
	}
	return limit
}

// hosts is the library's HostProvider for one session. It returns the names of servers, so that each dial resolves the
// name again. The library's own provider resolves names once, and pauses for a second after each round.
type hosts struct {
	s    *session
	list []string
	next int
}

// Init implements zk.HostProvider. The library has shuffled the servers.
func (h *hosts) Init(servers []string) error {
	h.list = servers
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.list) }

// Next implements zk.HostProvider. Only one goroutine calls it. If retryStart is true, the library fails queued
// requests and checks whether it is closed.
func (h *hosts) Next() (server string, retryStart bool) {
	server = h.list[h.next%len(h.list)]
	h.next++
	return server, h.s.hasEnded()
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {}

// dial is the library's Dialer. The library dials again at once after a failure, so dial pauses. There is no pause
// while each server is tried once. Then the pauses grow until a session is established.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	var pause time.Duration
	s.mu.Lock()
	if s.dials++; s.dials > len(s.b.servers) {
		pause = s.redial.Next(0)
	}
	s.mu.Unlock()
	if err := s.sleep(context.Background(), pause); err != nil {
		return nil, err
	}
	limit := s.handshakeLimit()
	if !s.probing {
		limit = min(limit, timeout)
	}
	conn, err := s.b.options.Dial(network, address, limit)
	s.mu.Lock()
	s.dialErr = err
	s.mu.Unlock()
	if err != nil {
		if s.probing && len(s.b.servers) == 1 { // the address is wrong, or the server is down: fail at once
			s.end(err)
		}
		return nil, err
	}
	c := newConnection(conn, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		_ = conn.Close()
		return nil, s.err
	}
	s.connection = c
	return c, nil
}
