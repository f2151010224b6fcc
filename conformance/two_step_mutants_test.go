package conformance_test

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	renewLooks  = "renewal compares, then sets the TTL of whoever holds the key"
	renewWrites = "renewal reads the lease, then writes it back"
	batchLooks  = "batch compares, then sets the TTL of whoever holds the key"
	resumeLooks = "resume compares, then sets the TTL of whoever holds the key"
)

// twoStepMutants are bugs of clients that extend a lease by two requests: one that looks and one that writes.
var twoStepMutants = []mutant{
	{renewLooks, "SlowRenewalSparesNext"},
	{renewWrites, "SlowRenewalSparesNext"},
	{batchLooks, "SlowRenewalSparesNext"},
	{resumeLooks, "SlowRenewalSparesNext"},
}

// token returns the token of owner's lease, if owner holds the key.
func (s *server) token(key, owner string) (token uint64, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.name(key)
	e := s.entryLocked(key)
	s.expireLocked(key, e, time.Now())
	return e.token, e.owner == owner
}

// setTTL makes the lease of whoever holds the key end ttl from now.
func (s *server) setTTL(key string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.name(key)
	e := s.entryLocked(key)
	s.expireLocked(key, e, time.Now())
	if e.owner != "" {
		e.expires = time.Now().Add(ttl)
		s.armLocked(key, e)
	}
}

// write makes the owner of l hold the key, whoever has it.
func (s *server) write(c *client, l *kit.Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(s.name(l.Key()))
	e.owner, e.client, e.token = l.Owner(), c, l.Token()
}

// inTwoSteps renews l by two requests, as a bug. It reports whether it did.
func (q requests) inTwoSteps(ctx context.Context, l *kit.Life, ttl time.Duration) (done bool, err error) {
	c, s := q.c, q.c.server
	_, batch := c.narrow.inBatch.Load(l.Owner())
	if l.Shared() || !(batch && c.is(batchLooks)) && !(!batch && c.is(renewLooks, renewWrites)) {
		return false, nil
	}
	var held bool
	if err := c.do(ctx, func() { _, held = s.token(l.Key(), l.Owner()) }); err != nil {
		return true, err
	}
	if !held {
		return true, backend.ErrLost
	}
	return true, c.do(ctx, func() {
		if c.is(renewWrites) {
			s.write(c, l)
		}
		s.setTTL(l.Key(), ttl)
	})
}

// asksToResume makes the request of a Resume, or two requests as a bug.
func (c *client) asksToResume(ctx context.Context, r backend.Request, sent time.Time) (
	_ uint64, held bool, err error,
) {
	looks := !r.Shared && c.is(resumeLooks)
	var token uint64 // not a result: a late reply may still write to it
	var found bool
	if err := c.do(ctx, func() {
		if looks {
			token, found = c.server.token(r.Key, r.Owner)
		} else {
			token, found = c.server.resume(c, r, sent)
		}
	}); err != nil {
		return 0, false, err
	}
	if looks && found {
		err = c.do(ctx, func() { c.server.setTTL(r.Key, r.TTL) })
	}
	return token, found, err
}
