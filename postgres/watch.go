package postgres

import (
	"context"
	"errors"
	"os"
	"time"
)

// A connection that is quiet is read from, so that its end is known when it comes. Starting and stopping that costs
// about as much as a request's overhead, so it begins when a connection has been quiet for a while: a short lease never
// pays for it.
const quiet = 20 * time.Millisecond

// restLimit is for how long a session without leases stays: the server has other clients who need connections.
const restLimit = time.Minute

// watch reads from the connection until somebody wants the turn. The server sends nothing that matters but the reason
// for which it ends the session.
func (s *session) watch() {
	if s.b.leases.Enter(context.Background(), nil) != nil {
		return
	}
	defer s.b.leases.Leave()
	select {
	case s.turn <- struct{}{}:
	default:
		return // it is in use, and quiet some other time
	}
	defer s.give()
	s.park()
	for s.listen() {
	}
}

// listen reads until the turn is wanted or something comes, and reports whether to go on.
func (s *session) listen() (more bool) {
	end := time.Now().Add(s.b.pool.patience(s))
	s.mu.Lock()
	if s.wanted > 0 || s.isBroken() || s.b.leases.Closed() {
		s.mu.Unlock()
		return false
	}
	s.watched = true
	_ = s.conn.Conn().SetReadDeadline(end)
	s.mu.Unlock()
	_, err := s.conn.ReceiveMessage(context.Background())
	s.mu.Lock()
	s.watched = false
	wanted := s.wanted > 0 || s.b.leases.Closed()
	s.mu.Unlock()
	switch {
	case err == nil:
		return true // a notification, which is nobody's
	case !errors.Is(err, os.ErrDeadlineExceeded):
		s.close()
		return false
	case wanted:
		return false
	case s.b.pool.retire(s):
		s.close()
		return false
	}
	s.limit(s.b.options.Timeout) // a lease may be longer than the server's longest timer, which this starts anew
	if _, err := s.simple(s.labelNow(0)); err != nil {
		s.close()
	}
	return true
}

// patience is for how long nothing need be sent on s.
func (p *pool) patience(s *session) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(s.holds) == 0 {
		return p.rest
	}
	return maxTimeout / 2
}

// park stops the server's timer of a session that has no leases any more: the server would end it.
func (s *session) park() {
	p := &s.b.pool
	p.mu.Lock()
	parked := len(s.holds) > 0 || s.timeout == 0
	p.mu.Unlock()
	if parked || s.isBroken() {
		return
	}
	s.limit(s.b.options.Timeout)
	if _, err := s.run("", 0, stRenew); err != nil {
		s.close()
	}
}
