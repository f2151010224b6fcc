package etcd

import (
	"slices"
	"time"
)

// gather is how far ahead of its time a lease is renewed together with others, as a part of its TTL.
const gather = 12

// wake renews the leases whose time has come, and lets go of those that nobody has used for long.
func (p *pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock.Woken()
	if p.closed {
		return
	}
	now := time.Now()
	var due []*lease
	for e := p.clock.First(); e != nil && !now.Before(e.At().Add(-e.Item.ttl/gather)); e = p.clock.First() {
		l := e.Item
		switch {
		case now.Sub(l.since) > idleLife && p.unshelfLocked(l):
			p.dropLocked(l)
		default:
			p.clock.Set(e, now.Add(l.ttl)) // its place in the clock tells that the pool still renews it
			due = append(due, l)
		}
	}
	if len(due) > 0 {
		p.b.calls.Background(func() { p.renewDue(due) })
	}
	p.clock.Arm()
}

// renewDue renews leases, and sets the time of the next renewal, sooner where this one has failed.
func (p *pool) renewDue(due []*lease) {
	shortest := due[0].ttl
	for _, l := range due {
		shortest = min(shortest, l.ttl)
	}
	errs := p.renew(p.b.base, p.patience(shortest), due...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range due {
		switch {
		case !l.place.Set(): // in use by now, or dropped
		case l.isGone:
			p.clock.Remove(&l.place)
			p.unshelfLocked(l)
		case errs[i] != nil:
			p.clock.Set(&l.place, time.Now().Add(l.ttl/(4*renewalsPerTTL)))
		case l.isStale && p.unshelfLocked(l):
			p.dropLocked(l)
		default:
			p.scheduleLocked(l)
		}
	}
	p.clock.Arm()
}

// unshelfLocked takes l out of the pool, and reports whether it was there.
func (p *pool) unshelfLocked(l *lease) bool {
	s := p.shelfLocked(l.class)
	i := slices.Index(s.idle, l)
	if i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	return i >= 0
}

// close revokes what is in the pool, and lets nothing in any more.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.clock.Stop()
	for _, s := range p.shelves {
		for _, l := range s.idle {
			p.dropLocked(l)
		}
		s.idle = nil
	}
}
