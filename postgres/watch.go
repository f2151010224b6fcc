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

// restLimit is for how long a session without a lease stays: the server has other clients who need connections.
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
	p := &s.b.pool
	p.mu.Lock()
	rest, park := p.rest, s.held == nil && s.timeout > 0
	p.mu.Unlock()
	if park && !s.isBroken() { // or the timer of its last lease would end it
		s.limit(context.Background(), s.b.options.Timeout)
		if _, err := s.run("", 0, stRenew); err != nil {
			s.close()
		}
	}
	for s.listen(rest) {
	}
}

// listen reads until the turn is wanted or something comes, and reports whether to go on.
func (s *session) listen(rest time.Duration) (more bool) {
	s.mu.Lock()
	if s.wanted > 0 || s.isBroken() || s.b.leases.Closed() {
		s.mu.Unlock()
		return false
	}
	s.watched = true
	_ = s.conn.Conn().SetReadDeadline(time.Now().Add(rest))
	s.mu.Unlock()
	_, err := s.conn.ReceiveMessage(context.Background())
	s.mu.Lock()
	s.watched = false
	wanted := s.wanted > 0 || s.b.leases.Closed()
	s.mu.Unlock()
	switch {
	case err == nil:
		return true // a notification, which is nobody's
	case !errors.Is(err, os.ErrDeadlineExceeded), !wanted && s.b.pool.retire(s):
		s.close()
		return false
	}
	return !wanted
}
