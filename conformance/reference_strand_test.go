package conformance_test

import (
	"time"

	"github.com/anylock/lock/conformance"
)

var _ conformance.OrphaningLink = (*wire)(nil)

// Strand implements conformance.StrandingLink. The client notices a dead connection after wirePatience, as by a
// heartbeat.
func (w *wire) Strand() { w.strand(wirePatience) }

// Orphan implements conformance.OrphaningLink.
func (w *wire) Orphan() { w.strand(2 * usualDelay) }

// strand makes the connection dead. The client notices after patience.
func (w *wire) strand(patience time.Duration) {
	w.set(func() {
		w.hold = [2]bool{}
		c := w.conn
		if c == nil {
			return
		}
		w.dying, w.conn, c.stranded = append(w.dying, c), nil, true
		if w.server.is("client does not notice a dead connection") {
			return
		}
		time.AfterFunc(patience, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !c.isBroken() {
				close(c.broken)
			}
			if w.server.is("dead connection ends the leases of its client") {
				go w.server.dropOfWire(w)
			}
		})
	})
}

// DeliverStranded implements conformance.StrandingLink.
func (w *wire) DeliverStranded() {
	w.set(func() {
		for _, c := range w.dying {
			select {
			case <-c.delivered:
			default:
				close(c.delivered)
			}
		}
	})
}

func (c *conn) isBroken() bool {
	select {
	case <-c.broken:
		return true
	default:
		return false
	}
}

// isStranded reports whether a connection of the client is stranded.
func (c *client) isStranded() bool {
	if c.wire == nil {
		return false
	}
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	return len(c.wire.dying) > 0
}

// breakStrandedLocked breaks the stranded connections.
func (w *wire) breakStrandedLocked() {
	for _, c := range w.dying {
		close(c.healed)
		if !c.isBroken() {
			close(c.broken)
		}
	}
	w.dying = nil
}

// passStrandedLocked forwards a message on a stranded connection once it is delivered, and reports whether it arrived.
func (w *wire) passStrandedLocked(c *conn, d conformance.Direction, n int64) bool {
	if d == conformance.FromStore {
		return false
	}
	w.mu.Unlock()
	arrived := false
	select {
	case <-c.delivered:
		arrived = true
	case <-c.healed:
	}
	w.mu.Lock()
	if arrived {
		w.passed[d] += n
		w.owner.contact.late.Store(true)
	}
	return arrived
}

// dropOfWire ends the exclusive leases of the client behind w.
func (s *server) dropOfWire(w *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		if e.client != nil && e.client.wire == w {
			s.endLocked(key, e)
		}
	}
}
