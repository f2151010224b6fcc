package link

import "github.com/anylock/lock/conformance"

var _ conformance.OrphaningLink = (*Link)(nil)

// Strand implements conformance.StrandingLink.
func (l *Link) Strand() {
	l.change(func() {
		for c := range l.conns {
			c.stranded = true
		}
		for d := range l.ways {
			l.ways[d].hold = false
		}
	})
}

// DeliverStranded implements conformance.StrandingLink.
func (l *Link) DeliverStranded() {
	l.change(func() {
		for c := range l.conns {
			c.deliver = c.deliver || c.stranded
		}
	})
}

// Orphan implements conformance.OrphaningLink.
func (l *Link) Orphan() {
	l.Strand()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.stranded {
			_ = c.client.Close()
		}
	}
}
