package redlock

import (
	"cmp"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// jumpSlack, plus 1 % of the elapsed time, is how much the clocks of a node and this client may drift apart between
	// two samples. A larger difference counts as a step.
	jumpSlack = 50 * time.Millisecond
	// fleetSkew is how far the clocks of nodes that vote together may be apart. If a node's clock was set forward, the
	// node has ended leases early. By fleetSkew, even a client that has never contacted the node before detects this.
	fleetSkew = 500 * time.Millisecond
	// sampleAge is the least age of the older of two samples, once enough time has passed. So a clock that is slewed fast
	// in small steps is detected too.
	sampleAge = time.Second
)

// A clockSample is a server's time in µs. The server read it between sent and received.
type clockSample struct {
	server         int64
	sent, received time.Time
}

// A serverClock compares a server's wall clock with our monotonic clock. The caller guards it with a mutex.
type serverClock struct{ older, newer clockSample }

// observe adds a sample, and returns by how much the clock was set: 0 if it runs like ours.
func (c *serverClock) observe(s clockSample) (step time.Duration) {
	if c.newer.sent.IsZero() {
		c.older, c.newer = s, s
	}
	if step = cmp.Or(s.step(c.older), s.step(c.newer)); step != 0 {
		c.older, c.newer = s, s
	} else if s.sent.Sub(c.newer.sent) >= sampleAge {
		c.older, c.newer = c.newer, s
	}
	return step
}

// step returns how much further the server's clock has advanced since ref than ours. It is 0 if the difference is
// within the slack.
func (s clockSample) step(ref clockSample) time.Duration {
	advanced := time.Duration(s.server-ref.server) * time.Microsecond
	least, most := s.sent.Sub(ref.received), s.received.Sub(ref.sent)
	slack := jumpSlack + max(least.Abs(), most.Abs())/100
	switch {
	case advanced > most+slack:
		return advanced - most
	case advanced < least-slack:
		return advanced - least
	}
	return 0
}

// observe compares n's clock with ours. A clock that was set forward has ended leases early, so the node loses its vote
// for as long as one of them could have lasted. A clock that was set back ends them late, which harms nobody.
func (r *Backend) observe(n *node, s clockSample) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.clock.observe(s) > 0 {
		longest := r.options.MaxTTL
		n.bannedUntil = s.received.Add(longest + backend.Margin(longest) + keepPad)
	}
}

// trails reports whether s's clock may be behind o's, by at most fleetSkew. Both samples must be from one round.
func (s clockSample) trails(o clockSample) bool {
	ahead := time.Duration(o.server-s.server) * time.Microsecond
	// The bounds of ahead if both clocks had been read at the same time.
	least, most := ahead-o.received.Sub(s.sent), ahead+s.received.Sub(o.sent)
	return most >= 0 && least <= fleetSkew
}
