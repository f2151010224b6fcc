package postgres

import (
	"context"
	"errors"
	"os"
	"time"
)

// watchAfter is how long a connection must be idle before a watcher reads from it, to detect its end at once. Starting
// and stopping a watcher costs about as much as the overhead of a request. The delay saves this cost for short leases.
const watchAfter = 20 * time.Millisecond

// closeAfter is how long a session without a lease stays open: other clients of the server need connections, too.
const closeAfter = time.Minute

// watch reads from the connection until another goroutine wants the turn. The only message that matters is the reason
// why the server ends the session.
func (s *session) watch() {
	if s.b.leases.Enter(context.Background(), nil) != nil {
		return
	}
	defer s.b.leases.Leave()
	select {
	case s.turn <- struct{}{}:
	default:
		return // the session is in use; releaseTurn restarts the timer
	}
	defer s.releaseTurn()
	p := &s.b.pool
	p.mu.Lock()
	closeAfter, clearTimeout := p.closeAfter, s.held == nil && s.timeout > 0
	p.mu.Unlock()
	if clearTimeout && !s.isBroken() { // otherwise, the timer of its last lease would end the session
		s.limit(context.Background(), s.b.options.Timeout)
		if _, err := s.run("", 0, stRenew); err != nil {
			s.close()
		}
	}
	for s.listen(closeAfter) {
	}
}

// listen reads until a message arrives, the turn is wanted, or closeAfter has passed. It reports whether to read again.
func (s *session) listen(closeAfter time.Duration) (more bool) {
	s.mu.Lock()
	if s.turnWaiters > 0 || s.isBroken() || s.b.leases.Closed() {
		s.mu.Unlock()
		return false
	}
	s.watched = true
	end := time.Now().Add(closeAfter)
	_ = s.conn.Conn().SetReadDeadline(end)
	s.mu.Unlock()
	_, err := s.conn.ReceiveMessage(context.Background())
	s.mu.Lock()
	s.watched = false
	turnWanted := s.turnWaiters > 0 || s.b.leases.Closed()
	s.mu.Unlock()
	switch {
	case err == nil:
		return true // a notification, which is ignored
	case !errors.Is(err, os.ErrDeadlineExceeded), !turnWanted && !time.Now().Before(end) && s.b.pool.retire(s):
		s.close()
		return false
	}
	return !turnWanted
}
