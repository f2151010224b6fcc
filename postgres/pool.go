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

// A pool keeps the sessions of a Backend within its limits. A session goes back when its lease ends, never before.
type pool struct {
	b *Backend

	mu    sync.Mutex
	all   map[*session]struct{}
	idle  []*session // not checked out; the last one is used first
	taken int        // how many are checked out, or being made
	line  []*held    // wait for a session, first come, first served

	quiet time.Duration // after which a session is watched
	rest  time.Duration // after which an idle session is closed
}

// held is a lease, the attempt to get one, or a query. Each has a session of its own: the server grants a session any
// lock that conflicts only with locks of the same session.
type held struct {
	s      *session // nil before there is one
	h      hash
	entry  string // of the label
	shared bool   // the mode of the lock
	query  bool   // it locks nothing; there is one session more than leases, for queries
	wait   bool   // stand in line if no session is free

	ttl time.Duration // guarded by the session's turn

	// Guarded by pool.mu.
	seat   chan error // receives when the wait in line ends
	seated bool       // it counts in pool.taken
	queued bool       // it waits in the server's queue
	life   *kit.Life  // nil until it is granted
	gone   bool       // its session is no longer its own
}

// checkOut returns a session for h. If none is free and h may wait, it waits in line. Its caller drops h.
func (p *pool) checkOut(ctx context.Context, h *held) (*session, error) {
	p.mu.Lock()
	ok, err := p.seatLocked(h)
	if !ok {
		h.seat = make(chan error, 1)
		p.line = append(p.line, h)
	}
	p.mu.Unlock()
	if !ok {
		select {
		case err = <-h.seat:
		case <-ctx.Done():
			return nil, kit.ContextError(ctx, nil)
		}
	}
	if err != nil || h.s != nil {
		return h.s, err
	}
	return p.dial(ctx, h)
}

// seatLocked reports whether h's wait is over: it has an idle session, the place for a new one, or an error.
func (p *pool) seatLocked(h *held) (ok bool, err error) {
	most := p.b.options.MaxLeases
	switch {
	case p.b.leases.Closed():
		return true, backend.ErrClosed
	case p.taken < most || h.query && p.taken == most:
	case h.wait || p.countLocked(func(h *held) bool { return h.queued || h.life != nil }) < most: // others end soon
		return false, nil
	default:
		return true, fmt.Errorf("%w: all %d leases are held or waited for (%s)", ErrExhausted, most, paramMaxLeases)
	}
	p.taken++
	h.seated = true
	if n := len(p.idle); n > 0 {
		h.s, p.idle = p.idle[n-1], p.idle[:n-1]
		h.s.held = h
	}
	return true, nil
}

func (p *pool) countLocked(counts func(h *held) bool) (n int) {
	for s := range p.all {
		if s.held != nil && counts(s.held) {
			n++
		}
	}
	return n
}

// serveLocked ends the wait of those in line for whom there is a session.
func (p *pool) serveLocked() {
	p.line = slices.DeleteFunc(p.line, func(h *held) bool {
		ok, err := p.seatLocked(h)
		if ok {
			h.seat <- err
		}
		return ok
	})
}

// dial makes a session for h, which has a place.
func (p *pool) dial(ctx context.Context, h *held) (*session, error) {
	s, err := p.b.connect(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.b.leases.Closed() {
		go s.conn.Conn().Close()
		return nil, backend.ErrClosed
	}
	p.all[s] = struct{}{}
	s.quiet = time.AfterFunc(p.quiet, s.watch)
	s.held, h.s = h, s
	return s, nil
}

// drop gives back h's session, or its place.
func (p *pool) drop(h *held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked(h)
}

func (p *pool) dropLocked(h *held) {
	if h.gone {
		return
	}
	h.gone = true
	if h.seated {
		p.taken--
	} else {
		p.line = slices.DeleteFunc(p.line, func(other *held) bool { return other == h })
	}
	if s := h.s; s != nil {
		s.held = nil
		if !s.dead {
			p.idle = append(p.idle, s)
		}
	}
	p.serveLocked()
}

func (p *pool) isGone(h *held) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.gone
}

// queue reports whether h may wait in the server's queue: half of the leases may.
func (p *pool) queue(h *held) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.queued = p.countLocked(func(h *held) bool { return h.queued }) < p.b.options.MaxLeases/2
	p.serveLocked() // an attempt in line that may not wait for long is refused now
	return h.queued
}

// granted records the life of h, and reports whether its session still lives.
func (p *pool) granted(h *held, life *kit.Life) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.life, h.queued = life, false
	p.serveLocked() // as in queue
	return !h.gone
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

// discard removes a session whose connection is closed. Its lease is lost.
func (p *pool) discard(s *session) {
	p.mu.Lock()
	var life *kit.Life
	if !s.dead {
		s.dead = true
		s.quiet.Stop()
		delete(p.all, s)
		p.idle = slices.DeleteFunc(p.idle, func(other *session) bool { return other == s })
		if h := s.held; h != nil {
			life = h.life
			p.dropLocked(h)
		}
	}
	p.mu.Unlock()
	if life != nil {
		life.Lose()
	}
}

// wake refuses those who wait for a session, and ends all watches.
func (p *pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serveLocked()
	for s := range p.all {
		s.want(0)
	}
}

// stop ends all requests without an answer.
func (p *pool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all {
		_ = s.conn.Conn().SetDeadline(longAgo)
	}
}

// end closes the sessions without leases, and lets the others last until the server ends them.
func (p *pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all {
		s.quiet.Stop()
		if s.held == nil {
			_ = s.conn.Conn().Close()
		} else {
			time.AfterFunc(s.timeout+p.b.options.Timeout, func() { _ = s.conn.Conn().Close() })
		}
	}
}
