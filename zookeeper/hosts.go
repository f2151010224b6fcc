package zookeeper

import (
	"context"
	"net"
	"time"
)

// hosts is the library's HostProvider for one session: the servers by name, so that each dial looks them up anew. The library's own
// resolves them once, and pauses for a second whenever it comes around.
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

// Next implements zk.HostProvider. One goroutine calls it. retryStart makes the library fail what is queued and look whether it is closed.
func (h *hosts) Next() (server string, retryStart bool) {
	server = h.list[h.next%len(h.list)]
	h.next++
	return server, h.s.isOver()
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {}

// dial is the library's Dialer. The library dials again at once, so it pauses after a failure.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if s.isOver() {
		return nil, s.reason()
	}
	if err := s.sleep(context.Background(), s.redial()); err != nil {
		return nil, err
	}
	limit := s.handshakeLimit()
	if !s.probing {
		limit = min(limit, timeout)
	}
	c, err := s.b.options.Dial(network, address, limit)
	s.mu.Lock()
	s.dialErr = err
	s.mu.Unlock()
	if err != nil {
		if s.probing && len(s.b.servers) == 1 { // the address is wrong, or the server is down: say so at once
			s.die(err)
		}
		return nil, err
	}
	w := newWire(c, s)
	if !s.attach(w) {
		_ = c.Close()
		return nil, s.reason()
	}
	return w, nil
}

// redial is the pause before the next dial: none while each server is tried once, then growing while none of them leads to a session.
func (s *session) redial() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	if s.dials <= len(s.b.servers) {
		return 0
	}
	return s.redials.Next(0)
}
