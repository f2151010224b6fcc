package redlock

import "time"

const (
	// jumpSlack and 1 % of the time between are what a node's clock may differ from ours between two looks at it. More
	// is taken for a step.
	jumpSlack = 50 * time.Millisecond
	// fleetSkew is how far the clocks of nodes that vote together may be apart. One whose clock was set forward, and
	// has dropped its leases, is found by it even by a client that has never asked it before.
	fleetSkew = 500 * time.Millisecond
	// sampleAge is the least age of the older of two samples once time has passed, so that a clock that is slewed fast
	// in small portions is noticed too.
	sampleAge = time.Second
)

// A clockSample is a server's time in µs and the bounds of the instant at which it was taken.
type clockSample struct {
	server         int64
	sent, received time.Time
}

// A serverClock compares a server's wall clock with our monotonic one. The caller guards it.
type serverClock struct{ older, newer clockSample }

// observe enters a sample and returns by how much the clock has been set, 0 if it runs as ours does.
func (c *serverClock) observe(s clockSample) (step time.Duration) {
	for _, ref := range []clockSample{c.older, c.newer} {
		if ref.sent.IsZero() {
			continue
		}
		if step = s.step(ref); step != 0 {
			c.older, c.newer = s, s
			return step
		}
	}
	switch {
	case c.newer.sent.IsZero():
		c.older, c.newer = s, s
	case s.sent.Sub(c.newer.sent) >= sampleAge:
		c.older, c.newer = c.newer, s
	}
	return 0
}

// step is what the server's clock went more than ours since ref, 0 within what is allowed.
func (s clockSample) step(ref clockSample) time.Duration {
	went := time.Duration(s.server-ref.server) * time.Microsecond
	least, most := s.sent.Sub(ref.received), s.received.Sub(ref.sent)
	slack := jumpSlack + max(least.Abs(), most.Abs())/100
	switch {
	case went > most+slack:
		return went - most
	case went < least-slack:
		return went - least
	}
	return 0
}

// trails reports whether s's clock may be behind o's, which was asked in one go with it, by fleetSkew at most.
func (s clockSample) trails(o clockSample) bool {
	// Both as they would have been when one request was sent, at the earliest and at the latest.
	zero := s.sent
	lo, hi := s.offset(zero)
	olo, ohi := o.offset(zero)
	return lo <= ohi && olo-fleetSkew <= hi
}

// offset bounds the server's clock at zero.
func (s clockSample) offset(zero time.Time) (lo, hi time.Duration) {
	server := time.Duration(s.server) * time.Microsecond
	return server - s.received.Sub(zero), server - s.sent.Sub(zero)
}
