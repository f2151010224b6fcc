package conformance_test

import (
	"context"
	"io"
	"math"
	"slices"
	"time"
)

const (
	waitMinutes   = "wait ends after five minutes"
	placeMinutes  = "place in the queue is removed after five minutes"
	anewMinutes   = "waiter goes to the end of the queue every five minutes"
	leaseMinutes  = "lease ends five minutes after its grant, although renewed"
	writerMinutes = "writer that has waited for five minutes keeps no readers out"
	waitHour      = "wait ends after an hour"
	leaseHour     = "lease ends an hour after its grant, although renewed"
	ttlHour       = "TTL is an hour at most, and Inspect returns none"
	tokenHour     = "token is forgotten when a key has been free for an hour"
	clientHour    = "first request of a client fails after an hour without any"
	leaseDay      = "lease ends a day after its grant, although renewed"
	tokenDay      = "token is forgotten when a key has been free for a day"
)

// agedMutants are bugs of waits, leases and tokens that are older than 20 seconds.
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
	{waitMinutes, "AgedThingsStand"},
	{placeMinutes, "AgedThingsStand"},
	{anewMinutes, "AgedThingsStand"},
	{leaseMinutes, "AgedThingsStand"},
	{writerMinutes, "AgedThingsStand"},
	{waitHour, "AgedThingsStand"},
	{leaseHour, "AgedThingsStand"},
	{ttlHour, "AgedThingsStand"},
	{tokenHour, "AgedThingsStand"},
	{clientHour, "AgedThingsStand"},
	{leaseDay, "AgedThingsStand"},
	{tokenDay, "AgedThingsStand"},
}

const (
	aged20 = 20 * time.Second
	aged30 = 30 * time.Second
	aged90 = 90 * time.Second
	aged5  = 5 * time.Minute
	day    = 24 * time.Hour
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
	case c.is(waitMinutes):
		return time.After(aged5), nil
	case c.is(anewMinutes):
		return nil, time.After(aged5)
	case c.is(waitHour):
		return time.After(time.Hour), nil
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
	for bug, age := range map[string]time.Duration{"place in the queue is removed after 30 seconds": aged30,
		"place in the queue is removed after 90 seconds": aged90, placeMinutes: aged5} {
		if s.is(bug) {
			e.queue = slices.DeleteFunc(e.queue, func(p *place) bool { return time.Since(p.since) > age })
		}
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
	idle := now.Sub(time.Unix(0, last))
	if last > 0 && (idle > aged30 && c.is("first request of a client fails after 30 seconds without any") ||
		idle > time.Hour && c.is(clientHour)) {
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

// endsAged reports whether the lease of e is too old to be renewed, as a bug.
func (s *server) endsAged(e *entry, now time.Time) bool {
	for bug, age := range map[string]time.Duration{"lease ends 30 seconds after its grant, although renewed": aged30,
		"lease ends a minute after its grant, although renewed": time.Minute, leaseMinutes: aged5, leaseHour: time.Hour,
		leaseDay: day} {
		if now.Sub(e.granted) > age && s.is(bug) {
			return true
		}
	}
	return false
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
	for bug, age := range map[string]time.Duration{"token is forgotten when a key has been free for 20 seconds": aged20,
		"token is forgotten when a key has been free for a minute": time.Minute, tokenHour: time.Hour, tokenDay: day} {
		if now.Sub(free) > age {
			s.forgetsToken(bug, key)
		}
	}
}
