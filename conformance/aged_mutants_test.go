package conformance_test

import (
	"context"
	"io"
	"math"
	"slices"
	"time"
)

// agedMutants are bugs of waits, leases and tokens that are aged30 than 20 or 30 seconds.
var agedMutants = []mutant{
	{"wait ends after 30 seconds", "AgedThingsStand"},
	{"waiter goes to the end of the queue every 20 seconds", "AgedThingsStand"},
	{"place in the queue is removed after 30 seconds", "AgedThingsStand"},
	{"waiter doubles its pause between polls each time", "AgedThingsStand"},
	{"limit of a wait in milliseconds is an int32", "AgedThingsStand"},
	{"TTL is 30 seconds at most, and Inspect returns none", "AgedThingsStand"},
	{"lease ends 30 seconds after its grant, although renewed", "AgedThingsStand"},
	{"token is forgotten when a key has been free for 20 seconds", "AgedThingsStand"},
	{"wait ends after a minute", "AgedThingsStand"},
	{"waiter goes to the end of the queue every minute", "AgedThingsStand"},
	{"place in the queue is removed after 90 seconds", "AgedThingsStand"},
	{"TTL is a minute at most, and Inspect returns none", "AgedThingsStand"},
	{"lease ends a minute after its grant, although renewed", "AgedThingsStand"},
	{"token is forgotten when a key has been free for a minute", "AgedThingsStand"},
	{"first request of a client fails after 30 seconds without any", "AgedThingsStand"},
	{"lease ends when its client has made no request for a minute", "AgedThingsStand"},
}

const (
	aged20 = 20 * time.Second
	aged30 = 30 * time.Second
	aged90 = 90 * time.Second
)

// agedWait returns timers that end a wait, or make it begin anew, because of its age, as a bug.
func (c *client) agedWait(ctx context.Context) (ends, anew <-chan time.Time) {
	switch {
	case c.is("wait ends after 30 seconds"):
		return time.After(aged30), nil
	case c.is("waiter goes to the end of the queue every 20 seconds"):
		return nil, time.After(aged20)
	case c.is("wait ends after a minute"):
		return time.After(time.Minute), nil
	case c.is("waiter goes to the end of the queue every minute"):
		return nil, time.After(time.Minute)
	case c.is("limit of a wait in milliseconds is an int32"):
		if end, ok := ctx.Deadline(); ok && time.Until(end) > math.MaxInt32*time.Millisecond {
			limit := int32(time.Until(end) / time.Millisecond)
			return time.After(time.Duration(limit) * time.Millisecond), nil
		}
	}
	return nil, nil
}

// removesOldPlaces removes the places of waiters that have waited for long, as a bug.
func (s *server) removesOldPlaces(e *entry) {
	if s.is("place in the queue is removed after 30 seconds") {
		e.queue = slices.DeleteFunc(e.queue, func(p *place) bool { return time.Since(p.since) > aged30 })
	}
	if s.is("place in the queue is removed after 90 seconds") {
		e.queue = slices.DeleteFunc(e.queue, func(p *place) bool { return time.Since(p.since) > aged90 })
	}
}

// pausesLonger delays a waiter at its turn until it polls next, as a bug.
func (c *client) pausesLonger(p *place) {
	if !c.is("waiter doubles its pause between polls each time") {
		return
	}
	next := p.since
	for pause := 50 * time.Millisecond; next.Before(time.Now()); pause *= 2 {
		next = next.Add(pause)
	}
	time.Sleep(time.Until(next)) // sleeps: until the waiter polls next
}

// wakesUp records that the client makes a request. It returns an error if none was made for long, as a bug.
func (c *client) wakesUp() error {
	now := time.Now()
	last := c.requested.Swap(now.UnixNano())
	if last > 0 && now.Sub(time.Unix(0, last)) > aged30 &&
		c.is("first request of a client fails after 30 seconds without any") {
		return io.EOF
	}
	return nil
}

// endsIdle makes the lease of e end now if its client has made no request for long, as a bug.
func (s *server) endsIdle(e *entry, now time.Time) {
	if e.owner != "" && e.client != nil && s.is("lease ends when its client has made no request for a minute") &&
		now.Sub(time.Unix(0, e.client.requested.Load())) > time.Minute {
		e.expires = now
	}
}

// endsAged reports whether the lease of e is too aged20 to be renewed, as a bug.
func (s *server) endsAged(e *entry, now time.Time) bool {
	return now.Sub(e.granted) > aged30 && s.is("lease ends 30 seconds after its grant, although renewed") ||
		now.Sub(e.granted) > time.Minute && s.is("lease ends a minute after its grant, although renewed")
}

// forgetsIdleToken forgets the token of key, as a bug, when the key has been free for a while.
func (s *server) forgetsIdleToken(key string, now time.Time) {
	e := s.keys[key]
	if e == nil {
		return
	}
	free := e.released
	if e.expired {
		free = e.expires
	}
	if now.Sub(free) > aged20 {
		s.forgetsToken("token is forgotten when a key has been free for 20 seconds", key)
	}
	if now.Sub(free) > time.Minute {
		s.forgetsToken("token is forgotten when a key has been free for a minute", key)
	}
}
