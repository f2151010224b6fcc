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

// A pool keeps the sessions of a Backend within its limits. A session returns to the pool when its lease ends, never
// earlier.
type pool struct {
	b *Backend

	mu      sync.Mutex
	all     map[*session]struct{}
	idle    []*session  // not checked out; the last one is used first
	inUse   int         // number of sessions that are checked out or being opened
	waiting []*checkout // in line for a session, first come, first served

	watchAfter time.Duration // idle time after which a session is watched
	closeAfter time.Duration // further idle time after which a session without a lease is closed
}

// checkout is a lease, an attempt to get a lease, or a query. Each has its own session, because the server grants a
// session any lock that conflicts only with locks of the same session.
type checkout struct {
	s      *session // nil until a session is assigned
	hash   hash
	entry  string // see labelEntry
	shared bool   // the mode of the lock
	query  bool   // takes no lock; may use the one session beyond MaxLeases
	wait   bool   // wait for the lock, and in line if no session is free

	ttl time.Duration // guarded by the session's turn

	// Guarded by pool.mu.
	ready   chan error // receives when the wait in line ends
	counted bool       // counts in pool.inUse
	queued  bool       // waits in the server's queue
	life    *kit.Life  // nil until granted
	dropped bool       // dropped: s may belong to another checkout
}

// checkOut returns a session for h. If no session is free and h may wait, or if one will be free soon, checkOut waits
// in line. Only an attempt that may wait for its lock waits for longer than a login may take: if the server is silent,
// the line moves only when logins fail. The caller must drop h, even after an error.
func (p *pool) checkOut(ctx context.Context, h *checkout) (*session, error) {
	p.mu.Lock()
	ok, err := p.admitLocked(h)
	if !ok {
		h.ready = make(chan error, 1)
		p.waiting = append(p.waiting, h)
	}
	p.mu.Unlock()
	if !ok {
		var late <-chan time.Time
		if !h.wait || h.query {
			late = time.After(p.b.options.loginLimit())
		}
		select {
		case err = <-h.ready:
		case <-late:
			return nil, fmt.Errorf("%w: no connection was free within %v", backend.ErrUnavailable, p.b.options.loginLimit())
		case <-ctx.Done():
			return nil, kit.ContextError(ctx, nil)
		}
	}
	if err != nil || h.s != nil {
		return h.s, err
	}
	return p.dial(ctx, h)
}

// admitLocked reports whether h need not wait in line: h has got an idle session, a place for a new session, or an
// error.
func (p *pool) admitLocked(h *checkout) (ok bool, err error) {
	most := p.b.options.MaxLeases
	switch {
	case p.b.leases.Closed():
		return true, backend.ErrClosed
	case p.inUse < most || h.query && p.inUse == most:
	case h.wait || p.countLocked(func(h *checkout) bool { return h.queued || h.life != nil }) < most:
		return false, nil // h may wait, or some sessions will be free soon
	default:
		return true, fmt.Errorf("%w: all %d leases are held or waited for (%s)", ErrExhausted, most, paramMaxLeases)
	}
	p.inUse++
	h.counted = true
	if n := len(p.idle); n > 0 {
		h.s, p.idle = p.idle[n-1], p.idle[:n-1]
		h.s.held = h
	}
	return true, nil
}

func (p *pool) countLocked(counts func(h *checkout) bool) (n int) {
	for s := range p.all {
		if s.held != nil && counts(s.held) {
			n++
		}
	}
	return n
}

// admitWaitingLocked wakes all in line that need not wait any longer: see admitLocked.
func (p *pool) admitWaitingLocked() {
	p.waiting = slices.DeleteFunc(p.waiting, func(h *checkout) bool {
		ok, err := p.admitLocked(h)
		if ok {
			h.ready <- err
		}
		return ok
	})
}

// dial opens a session for h, which already counts in pool.inUse.
func (p *pool) dial(ctx context.Context, h *checkout) (*session, error) {
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
	s.watchTimer = time.AfterFunc(p.watchAfter, s.watch)
	s.held, h.s = h, s
	return s, nil
}

// drop returns h's session to the pool, or frees h's place.
func (p *pool) drop(h *checkout) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked(h)
}

func (p *pool) dropLocked(h *checkout) {
	if h.dropped {
		return
	}
	h.dropped = true
	if h.counted {
		p.inUse--
	} else {
		p.waiting = slices.DeleteFunc(p.waiting, func(other *checkout) bool { return other == h })
	}
	if s := h.s; s != nil {
		s.held = nil
		if !s.dead {
			p.idle = append(p.idle, s)
		}
	}
	p.admitWaitingLocked()
}

func (p *pool) wasDropped(h *checkout) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.dropped
}

// enterServerQueue reports whether h may wait in the server's queue. At most MaxLeases/2 may.
func (p *pool) enterServerQueue(h *checkout) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.queued = p.countLocked(func(h *checkout) bool { return h.queued }) < p.b.options.MaxLeases/2
	p.admitWaitingLocked() // if no session will be free soon, attempts in line that may not wait are refused
	return h.queued
}

// granted records the life of h, and reports whether h's session is still alive.
func (p *pool) granted(h *checkout, life *kit.Life) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.life, h.queued = life, false
	p.admitWaitingLocked() // as in enterServerQueue
	return !h.dropped
}

// retire reports whether the caller must close s, which has been idle for too long, and removes s from the idle
// sessions. One idle session is kept, so that the next call need not connect.
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

// discard removes a session whose connection is closed. The session's lease is lost.
func (p *pool) discard(s *session) {
	p.mu.Lock()
	var life *kit.Life
	if !s.dead {
		s.dead = true
		s.watchTimer.Stop()
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

// beginClose rejects all requests in line for a session, and ends all watches. It runs when Close begins.
func (p *pool) beginClose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.admitWaitingLocked()
	for s := range p.all {
		s.addTurnWaiters(0)
	}
}

// interruptRequests ends all pending requests.
func (p *pool) interruptRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all {
		_ = s.conn.Conn().SetDeadline(longAgo)
	}
}

// closeSessions closes the sessions without leases. The other sessions stay open until the server ends them.
func (p *pool) closeSessions() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all {
		s.watchTimer.Stop()
		if s.held == nil {
			_ = s.conn.Conn().Close()
		} else {
			time.AfterFunc(s.timeout+p.b.options.Timeout, func() { _ = s.conn.Conn().Close() })
		}
	}
}
