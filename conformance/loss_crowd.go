package conformance

import (
	"math/rand/v2"
	"time"
)

// losesInCrowd lets many leases of one client expire, in an order that differs from that of their grants, while others
// are renewed or released in between. A client that keeps all leases in one heap or list may lose sight of some.
func (t *trial) losesInCrowd() {
	c := t.open()
	grants := make([]*grant, max(1, min(60, t.h.Many)))
	t.inTurns(len(grants), func(i int) {
		get := t.acquire
		if t.g.Shared && i%5 == 4 {
			get = t.read
		}
		grants[i] = get(c, t.newKey(), t.g.Round(2*t.short()+rand.N(2*t.short())))
	})
	rand.Shuffle(len(grants), func(i, j int) { grants[i], grants[j] = grants[j], grants[i] })
	t.inTurns(len(grants), func(i int) {
		switch g := grants[i]; i % 3 {
		case 0:
			t.release(g)
		case 1:
			g.ttl = t.g.Round(2*t.short() + rand.N(2*t.short()))
			t.renew(g, g.ttl)
		}
	})
	t.together(len(grants), func(i int) {
		if g := grants[i]; i%3 > 0 && time.Until(g.Deadline()) > 4*tick { // otherwise it may have been lost before
			t.losesOnTime(g)
		}
	})
}
