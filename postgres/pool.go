package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A pool keeps the sessions of a Backend within its limits. A session goes back when its last lease ends, never before.
type pool struct {
	b *Backend

	mu      sync.Mutex
	all     map[*session]struct{}
	idle    []*session // without leases; the last one is used first
	dialing int
	carried int      // leases, held or asked for
	line    []*order // that wait for a session, first come, first served

	quiet time.Duration // after which a session is watched
	rest  time.Duration // after which a session without leases is closed
}

// An order is for a session.
type order struct {
	h    *held // that it is for; nil for a look around, which there is one more session for
	wait bool  // until there is one
	seat chan seat
}

// A seat is a session for an order, or its turn to make one, or why it gets none.
type seat struct {
	s   *session
	err error
}

// checkOut gets a session, which has o.h among its holds then. Where there is none, those who wait stand in line for
// the next one.
func (p *pool) checkOut(ctx context.Context, o *order) (*session, error) {
	p.mu.Lock()
	got, ok := p.seatLocked(o)
	if !ok {
		o.seat = make(chan seat, 1)
		p.line = append(p.line, o)
	}
	p.mu.Unlock()
	if !ok {
		select {
		case got = <-o.seat:
		case <-ctx.Done():
			p.leaveLine(o)
			return nil, kit.ContextError(ctx, nil)
		}
	}
	if got.s == nil && got.err == nil {
		return p.dial(ctx, o.h)
	}
	return got.s, got.err
}

// seatLocked finds what there is for an order.
func (p *pool) seatLocked(o *order) (got seat, ok bool) {
	h, most := o.h, p.b.options.MaxLeases
	switch {
	case p.b.leases.Closed():
		return seat{err: backend.ErrClosed}, true
	case h == nil || p.carried < most:
	case o.wait || p.pinnedLocked() < most:
		return seat{}, false
	default:
		return seat{err: fmt.Errorf("%w: all %d leases are held or waited for (%s)", ErrExhausted, most, paramMaxLeases)},
			true
	}
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.addLocked(s, h)
		return seat{s: s}, true
	}
	if len(p.all)+p.dialing <= most {
		p.dialing++
		p.countLocked(h)
		return seat{}, true
	}
	return seat{}, false // the sessions for looks around come back soon
}

// serveLocked gives those in the line what there is.
func (p *pool) serveLocked() {
	if len(p.line) == 0 {
		return
	}
	p.line = slices.DeleteFunc(p.line, func(o *order) bool {
		got, ok := p.seatLocked(o)
		if ok {
			o.seat <- got
		}
		return ok
	})
}

// leaveLine is for an order that has not waited for its seat, which another gets.
func (p *pool) leaveLine(o *order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.line, o); i >= 0 {
		p.line = slices.Delete(p.line, i, i+1)
		return
	}
	switch got := <-o.seat; {
	case got.s != nil && o.h == nil:
		p.giveBackLocked(got.s)
	case got.s == nil && got.err == nil:
		p.dialing--
		p.serveLocked()
	} // h is dropped by who has made it
}

func (p *pool) addLocked(s *session, h *held) {
	if h == nil {
		s.lent = true
		return
	}
	p.countLocked(h)
	h.s = s
	s.holds[h.h] = h
}

// countLocked counts h, once.
func (p *pool) countLocked(h *held) {
	if h != nil && !h.counted {
		h.counted = true
		p.carried++
	}
}

// pinnedLocked counts the leases that do not go by themselves soon.
func (p *pool) pinnedLocked() int {
	n := 0
	for s := range p.all {
		for _, h := range s.holds {
			if h.life != nil || s.waits {
				n++
			}
		}
	}
	return n
}

// dial makes a session, whose place is reserved.
func (p *pool) dial(ctx context.Context, h *held) (*session, error) {
	s, err := p.b.connect(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing--
	if err == nil && p.b.leases.Closed() {
		go s.conn.Conn().Close()
		err = backend.ErrClosed
	}
	if err != nil {
		p.serveLocked()
		return nil, err
	}
	p.all[s] = struct{}{}
	s.quiet = time.AfterFunc(p.quiet, s.watch)
	p.addLocked(s, h)
	return s, nil
}

// giveBack ends a look around by s.
func (p *pool) giveBack(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveBackLocked(s)
}

func (p *pool) giveBackLocked(s *session) {
	s.lent = false
	p.settleLocked(s)
}

// drop takes h from its session.
func (p *pool) drop(h *held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.gone {
		return
	}
	h.gone = true
	if h.counted {
		p.carried--
	}
	if h.s != nil {
		delete(h.s.holds, h.h)
		p.settleLocked(h.s)
	} else {
		p.serveLocked()
	}
}

// settleLocked puts s back if it has nothing more to do.
func (p *pool) settleLocked(s *session) {
	if !s.lent && len(s.holds) == 0 && !s.dead {
		p.idle = append(p.idle, s)
	}
	p.serveLocked()
}

// began notes that h is granted, or that its session waits in the server's queue, or no longer.
func (p *pool) began(h *held, life *kit.Life, waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.life, h.s.waits = life, waits
	p.serveLocked() // nobody need hope for this session
}

// retire reports whether s, which has rested, is to be closed, and keeps it from being used. One is kept, to spare the
// next call a connection.
func (p *pool) retire(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.idle, s)
	if i < 0 || len(p.idle) < 2 {
		return false
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	return true
}

// bury removes a session whose connection is closed. Its leases are lost.
func (p *pool) bury(s *session) {
	p.mu.Lock()
	if s.dead {
		p.mu.Unlock()
		return
	}
	s.dead = true
	s.quiet.Stop()
	delete(p.all, s)
	p.carried -= len(s.holds)
	if i := slices.Index(p.idle, s); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	var lives []*kit.Life
	for _, h := range s.holds {
		h.gone = true
		if h.life != nil {
			lives = append(lives, h.life)
		}
	}
	clear(s.holds)
	p.serveLocked()
	p.mu.Unlock()
	for _, l := range lives {
		l.Lose()
	}
}
