package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// A pool keeps the sessions of a Backend within its limits. A session goes back when its last lease ends, never before.
type pool struct {
	b *Backend

	mu      sync.Mutex
	all     map[*session]struct{}
	idle    []*session // without leases; the last one is used first
	dialing int
	carry   int           // sessions with holds, and those that are dialled for one
	leases  int           // held, or being asked for
	waiters int           // sessions that queue at the server
	changed chan struct{} // closed when a session comes back or goes; nil if nobody waits for it
	closed  bool

	ticker *time.Timer
	armed  bool
}

// checkOut gets a session for a hold, which it adds to it, or for a look around if h is nil.
func (p *pool) checkOut(ctx context.Context, h *hold, share bool) (*session, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, backend.ErrClosed
		}
		if s := p.pickLocked(h, share); s != nil {
			s.users++
			p.addLocked(s, h)
			p.mu.Unlock()
			return s, nil
		}
		most := p.b.options.MaxConns
		if len(p.all)+p.dialing < most+1 && (h == nil || p.carry < most) {
			p.dialing++
			if h != nil {
				p.carry++
			}
			p.mu.Unlock()
			return p.dial(ctx, h)
		}
		if h != nil && p.pinnedLocked() >= most {
			p.mu.Unlock()
			return nil, fmt.Errorf("%w: all %d connections hold leases or wait for one", ErrExhausted, most)
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, backend.ContextError(ctx, nil)
		}
	}
}

// pickLocked finds a session that is there already.
func (p *pool) pickLocked(h *hold, share bool) *session {
	if share {
		for s := range p.all {
			if s.takesLocked(h) {
				return s
			}
		}
	}
	if h != nil && p.carry >= p.b.options.MaxConns {
		return nil // one more is for looking around
	}
	best := -1
	for i := len(p.idle) - 1; i >= 0; i-- {
		if best < 0 || h != nil && p.idle[i].timeout == h.ttl {
			best = i
		}
		if h == nil || p.idle[best].timeout == h.ttl {
			break
		}
	}
	if best < 0 {
		return nil
	}
	s := p.idle[best]
	p.idle = append(p.idle[:best], p.idle[best+1:]...)
	return s
}

// takesLocked reports whether h may join the leases of s: for the same TTL, one at a time, never twice the same lock, which
// a session would be granted, and as far as the label has room.
func (s *session) takesLocked(h *hold) bool {
	if s.dead || s.waits || s.users > 0 || len(s.holds) == 0 || s.timeout != h.ttl || s.holds[h.h] != nil {
		return false
	}
	room := s.server.labelSize - labelRoom - len(h.entry)
	for _, other := range s.holds {
		if other.ttl != h.ttl {
			return false
		}
		room -= len(other.entry) + 1
	}
	return room > 0
}

func (p *pool) addLocked(s *session, h *hold) {
	if h == nil {
		return
	}
	if len(s.holds) == 0 {
		p.carry++
	}
	h.s = s
	s.holds[h.h] = h
}

// pinnedLocked counts the sessions that do not come back by themselves soon.
func (p *pool) pinnedLocked() int {
	n := 0
	for s := range p.all {
		for _, h := range s.holds {
			if h.life != nil || s.waits {
				n++
				break
			}
		}
	}
	return n
}

// dial makes a session, whose place is reserved.
func (p *pool) dial(ctx context.Context, h *hold) (*session, error) {
	cctx, cancel := ctx, func() {}
	if h != nil {
		cctx, cancel = p.b.untilClosing(ctx)
	}
	s, err := p.b.connect(cctx)
	cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing--
	if h != nil {
		p.carry-- // addLocked counts it
	}
	if err == nil && p.closed {
		go s.conn.Conn().Close()
		err = backend.ErrClosed
	}
	if err != nil {
		p.changedLocked()
		return nil, err
	}
	p.all[s] = struct{}{}
	s.users = 1
	p.addLocked(s, h)
	return s, nil
}

// checkIn ends a use of s.
func (p *pool) checkIn(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.users--
	p.settleLocked(s)
}

// drop takes h from its session.
func (p *pool) drop(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked(h)
}

func (p *pool) dropLocked(h *hold) {
	if h.gone {
		return
	}
	h.gone = true
	p.leases--
	if h.s != nil {
		delete(h.s.holds, h.h)
		if len(h.s.holds) == 0 && !h.s.dead {
			p.carry--
		}
		p.settleLocked(h.s)
	}
}

// settleLocked puts s back if it has nothing more to do.
func (p *pool) settleLocked(s *session) {
	if s.users == 0 && len(s.holds) == 0 && !s.dead && !slices.Contains(p.idle, s) {
		p.idle = append(p.idle, s)
	}
	p.changedLocked()
}

func (p *pool) changedLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// admit counts a lease in that is to be asked for; drop counts it out.
func (p *pool) admit() error {
	most := p.b.maxLeases()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leases >= most {
		return fmt.Errorf("%w: %d leases are held or asked for, and %d is the limit", ErrExhausted, p.leases, most)
	}
	p.leases++
	return nil
}

// bury removes a session whose connection is closed. Its leases are lost.
func (p *pool) bury(s *session) {
	p.mu.Lock()
	if s.dead {
		p.mu.Unlock()
		return
	}
	s.dead = true
	delete(p.all, s)
	if len(s.holds) > 0 {
		p.carry--
	}
	for i, other := range p.idle {
		if other == s {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			break
		}
	}
	var lives []*backend.Life
	for _, h := range s.holds {
		h.gone = true
		p.leases--
		if h.life != nil {
			lives = append(lives, h.life)
		}
	}
	clear(s.holds)
	p.changedLocked()
	p.mu.Unlock()
	for _, l := range lives {
		l.Lose()
	}
}
