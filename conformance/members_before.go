package conformance

import (
	"time"

	"github.com/anylock/lock/backend"
)

// A membersBefore is what clients hold and wait for when a member of a cluster fails.
type membersBefore struct {
	*clusterTrial
	x, y backend.Backend

	queued  *grant     // a lease that others wait for
	waits   []*waiting // for the key of queued
	readers []*grant   // of one key; none if the store has no shared leases
	writer  *waiting   // for the key of readers
	dead    *grant     // a lease that is left to expire
	heir    *waiting   // for the key of dead
}

// before prepares what must outlive the failure of a member, by clients of its own.
func (c *clusterTrial) before() *membersBefore {
	m := &membersBefore{clusterTrial: c, x: c.open(), y: c.open()}
	m.queued = m.acquire(m.x, m.newKey(), m.long())
	for i, b := range []backend.Backend{m.y, m.x, m.y} {
		m.waits = append(m.waits, m.wait(b, m.queued.key, m.ttl()))
		m.arrived(m.queued.key, i+1)
	}
	if m.g.Shared {
		key := m.newKey()
		m.readers = []*grant{m.read(m.x, key, m.long()), m.read(m.y, key, m.long())}
		m.writer = m.wait(m.y, key, m.ttl())
		m.arrived(key, 1)
	}
	m.dead = m.acquire(m.x, m.newKey(), m.awaited())
	m.heir = m.wait(m.y, m.dead.key, m.ttl())
	m.confirmQueued(m.dead.key, 1)
	return m
}

// outlived fails unless everything of before has outlived the failure of a member, and its return. The order of the
// waiters is not tested, because a waiter whose connection breaks may lose its place. A member may take longer to come
// back than a lease lasts: then only the waiters are tested, and membersFail tests leases that are renewed.
func (m *membersBefore) outlived(when string) {
	most := m.h.Outage + 2*m.trial.g.Round(m.dead.ttl) + m.handOff() // a change of leader may restart the TTL
	m.ends(m.heir.granted(m.trial, most, when+", to a waiter for the key of a dead holder"), when)
	for _, r := range m.readers {
		if m.isKept(r, when) {
			m.writer.stillWaits(m.trial, r, m.rule)
		}
	}
	for _, r := range m.readers {
		m.ends(r, when)
	}
	if m.writer != nil {
		m.ends(m.writer.granted(m.trial, m.h.Outage+m.handOff(), when+", to a writer that waits for readers"), when)
	}
	m.isKept(m.queued, when)
	m.ends(m.queued, when)
	for waits := m.waits; len(waits) > 0; {
		turn := m.firstOf(waits, m.h.Outage+m.handOff(), when+", to waiters from before")
		m.ends(waits[turn].grant, when)
		waits = append(waits[:turn:turn], waits[turn+1:]...)
	}
}

// isKept reports whether g is live. It fails if g was lost before its deadline.
func (m *membersBefore) isKept(g *grant, when string) bool {
	live := g.live(time.Now())
	if live && g.gone() {
		m.fatalf("%s: a lease of %v was lost %v before its deadline", when, g.ttl, time.Until(g.Deadline()))
	}
	return live
}

// ends releases g, which must succeed within an outage, unless the TTL of g has passed.
func (m *membersBefore) ends(g *grant, when string) {
	if g.live(time.Now()) {
		m.succeedsBy(time.Now().Add(m.h.Outage), when+": Release", g.Release)
	}
}
