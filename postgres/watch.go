package postgres

import (
	"context"
	"time"
)

// A connection that is quiet is read from, so that its end is known when it comes. Starting and stopping that costs about as
// much as a request's overhead, so it begins when a connection has been quiet for a while: a short lease never pays for it.
const quiet = 20 * time.Millisecond

func (s *session) isWatched() bool {
	s.watching.Lock()
	defer s.watching.Unlock()
	return s.unwatch != nil
}

// watch reads from the connection until somebody wants the turn. The server sends nothing that matters but the reason for
// which it ends the session.
func (s *session) watch() {
	select {
	case s.turn <- struct{}{}:
	default:
		return // it is in use, and watched soon after
	}
	defer func() {
		<-s.turn
		s.b.pool.tickSoon() // who wanted the turn may have left without it
	}()
	ctx, cancel := context.WithCancel(s.b.closing)
	defer cancel()
	s.watching.Lock()
	free := s.unwatch == nil && s.wanted == 0 && !s.isBroken()
	if free {
		s.unwatch = cancel
	}
	s.watching.Unlock()
	if !free {
		return
	}
	s.park()
	for ctx.Err() == nil && !s.isBroken() {
		if !s.keep(ctx) {
			break
		}
	}
	s.watching.Lock()
	s.unwatch = nil
	s.watching.Unlock()
	if s.isBroken() {
		s.b.pool.bury(s)
	}
}

// keep reads until ctx ends, the connection does, or a lease longer than the server's longest timer needs it started anew.
func (s *session) keep(ctx context.Context) (more bool) {
	rctx, cancel := context.WithTimeout(ctx, maxTimeout/2)
	defer cancel()
	err := s.conn.WaitForNotification(rctx)
	if err == nil {
		return true // a notification, which is nobody's
	}
	if ctx.Err() != nil || s.isBroken() || rctx.Err() == nil {
		if ctx.Err() == nil {
			s.close()
		}
		return false
	}
	tctx, cancel := context.WithTimeout(s.b.base, s.b.options.Timeout)
	defer cancel()
	if _, err := s.simple(tctx, s.labelNow(0)); err != nil {
		s.close()
		return false
	}
	return true
}

// park stops the server's timer of a session that has no leases any more: the server would end it.
func (s *session) park() {
	p := &s.b.pool
	p.mu.Lock()
	parked := len(s.holds) > 0 || s.timeout == 0
	p.mu.Unlock()
	if parked || s.b.options.Mode == ModeTransaction { // a transaction's timer ends with it
		return
	}
	ctx, cancel := context.WithTimeout(s.b.base, s.b.options.Timeout)
	defer cancel()
	if _, err := s.run(ctx, "", step{stTimeout, []int64{0}}); err != nil {
		s.close()
		return
	}
	s.setTimeout(0)
}
