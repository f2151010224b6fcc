package postgres

import (
	"context"
	"time"
)

// To watch a request's context and time-out costs more than all else that its client does. So the pool's timer looks at
// the requests that are under way, and begins to watch a context when its request has not been answered by then: most have.

// tick is how often the pool's timer fires, and so how much later than its context a young request may end.
const tick = 5 * time.Millisecond

// attend begins a request, with the turn, that ends at the end of ctx if alone, and after limit unless that is 0.
func (s *session) attend(ctx context.Context, limit time.Duration, alone bool) {
	s.attended = alone
	p := &s.b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if alone {
		s.asks = ctx
	}
	if limit != 0 {
		s.boundLocked(limit)
	}
	if s.waits && s.b.isClosing() {
		s.cutLocked() // Close has been here before
	}
	p.tickSoonLocked()
}

// bound is for a request under way, with the turn, that has a limit from now on.
func (s *session) bound(limit time.Duration) {
	p := &s.b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.boundLocked(limit)
	p.tickSoonLocked()
}

func (s *session) boundLocked(limit time.Duration) { s.until = time.Now().Add(limit) }

// leave ends the request, with the turn.
func (s *session) leave() {
	s.attended = false
	p := &s.b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.used, s.until, s.asks = time.Now(), time.Time{}, nil
	s.request++
	if s.ignore != nil {
		s.ignore()
		s.ignore = nil
	}
	if s.cut && !s.isBroken() { // the answer was there just before
		s.cut = false
		_ = s.conn.Conn().SetDeadline(time.Time{})
	}
	p.tickSoonLocked()
}

// cutLocked ends the request without an answer.
func (s *session) cutLocked() {
	s.cut = true
	_ = s.conn.Conn().SetDeadline(longAgo)
}

// lookLocked looks at the request under way, and reports whether to look again.
func (s *session) lookLocked(now time.Time) (again bool) {
	if s.asks != nil && s.ignore == nil {
		p, request := &s.b.pool, s.request
		s.ignore = context.AfterFunc(s.asks, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if s.request == request {
				s.cutLocked()
			}
		})
	}
	if s.until.IsZero() {
		return false
	}
	if now.After(s.until) {
		s.cutLocked()
	}
	return true
}

// cutWaits ends the requests that wait in the server's queue.
func (p *pool) cutWaits() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all {
		if s.waits && s.asks != nil {
			s.cutLocked()
		}
	}
}

func (p *pool) tickSoon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickSoonLocked()
}

// tickSoonLocked arranges for quiet sessions to be watched, and for requests under way to be looked at.
func (p *pool) tickSoonLocked() {
	if p.armed {
		return
	}
	p.armed = true
	if p.ticker == nil {
		p.ticker = time.AfterFunc(tick, p.tick)
	} else {
		p.ticker.Reset(tick)
	}
}

func (p *pool) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	again := false
	now := time.Now()
	for s := range p.all {
		switch {
		case s.asks != nil || !s.until.IsZero():
			again = s.lookLocked(now) || again
		case p.closed || s.dead || s.isWatched():
		case now.Sub(s.used) < quiet:
			again = true
		default:
			p.b.calls.Background(s.watch)
		}
	}
	if again {
		p.tickSoonLocked()
	}
}
