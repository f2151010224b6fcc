package postgres

import (
	"context"
	"time"
)

// restLimit is for how long a session without leases stays: the server, or its pooler, has others who need connections.
const restLimit = time.Minute

// reapLaterLocked arranges for sessions at rest to be closed, but for one, which spares the next call a connection.
func (p *pool) reapLaterLocked() {
	if p.reaping || p.closed || len(p.idle) < 2 {
		return
	}
	p.reaping = true
	in := max(p.rest-time.Since(p.idle[0].used), tick)
	if p.reaper == nil {
		p.reaper = time.AfterFunc(in, p.reap)
	} else {
		p.reaper.Reset(in)
	}
}

// reap closes the sessions that have rested for too long. The first ones in idle have rested longest.
func (p *pool) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaping = false
	for !p.closed && len(p.idle) > 1 && time.Since(p.idle[0].used) >= p.rest {
		s := p.idle[0]
		p.idle = p.idle[1:]
		s.users++
		p.b.calls.Background(func() {
			_ = s.turnFor(context.Background(), func() error { s.close(); return nil })
			p.checkIn(s)
		})
	}
	p.reapLaterLocked()
}
