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
	line    []*byte       // who wait for a session, in order; the elements have no meaning but their address
	changed chan struct{} // closed when a session comes back or goes; nil if nobody waits for it
	closed  bool

	ticker *time.Timer
	armed  bool

	rest    time.Duration // after which a session without leases is closed
	reaper  *time.Timer
	reaping bool // the reaper is to come
}

// checkOut gets a session for a hold, which it adds to it, or for a look around if h is nil. Where there is none, those who wait stand in
// a line for the next one.
func (p *pool) checkOut(ctx context.Context, h *hold, share, wait bool) (*session, error) {
	var place *byte // in the line
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.leaveLineLocked(place) }()
	for {
		if p.closed {
			return nil, backend.ErrClosed
		}
		first := h == nil || len(p.line) == 0 || p.line[0] == place
		if s := p.pickLocked(h, share, first); s != nil {
			s.users++
			p.addLocked(s, h)
			return s, nil
		}
		most := p.b.options.MaxLeases
		if first && len(p.all)+p.dialing < most+1 && (h == nil || p.carry < most) {
			p.dialing++
			if h != nil {
				p.carry++
			}
			p.leaveLineLocked(place)
			place = nil
			return p.dialLocked(ctx, h)
		}
		if h != nil && !wait && p.pinnedLocked() >= most {
			return nil, fmt.Errorf("%w: all %d leases are held or waited for (%s)", ErrExhausted, most, paramMaxLeases)
		}
		if h != nil && wait && place == nil {
			place = new(byte)
			p.line = append(p.line, place)
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = backend.ContextError(ctx, nil)
		}
		p.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
}

// leaveLineLocked lets those behind place move up.
func (p *pool) leaveLineLocked(place *byte) {
	if i := slices.Index(p.line, place); i >= 0 {
		p.line = slices.Delete(p.line, i, i+1)
		p.changedLocked()
	}
}

// pickLocked finds a session that is there already.
func (p *pool) pickLocked(h *hold, share, first bool) *session {
	if share {
		for s := range p.all {
			if s.takesLocked(h) {
				return s
			}
		}
	}
	if !first || h != nil && p.carry >= p.b.options.MaxLeases {
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

// dialLocked makes a session, whose place is reserved, without the lock.
func (p *pool) dialLocked(ctx context.Context, h *hold) (*session, error) {
	p.mu.Unlock()
	cctx, cancel := ctx, func() {}
	if h != nil {
		cctx, cancel = p.b.untilClosing(ctx)
	}
	s, err := p.b.connect(cctx)
	cancel()
	p.mu.Lock()
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
		p.reapLaterLocked()
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if most := p.b.options.MaxLeases; p.b.options.Share > 0 && p.leases >= most { // else connections are what is counted
		return fmt.Errorf("%w: all %d leases are held or asked for", ErrExhausted, most)
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
