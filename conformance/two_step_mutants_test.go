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
	renewMeets  = "renewal that meets the request of a waiter is ErrLost"
	readerMeets = "renewal of a reader that meets the request of a waiter is ErrLost"
)

// twoStepMutants are bugs of clients that extend a lease by two requests: one that looks and one that writes.
var twoStepMutants = []mutant{
	{renewLooks, "SlowRenewalSparesNext"},
	{renewWrites, "SlowRenewalSparesNext"},
	{batchLooks, "SlowRenewalSparesNext"},
	{resumeLooks, "SlowRenewalSparesNext"},
	{renewMeets, "RenewKeepsAlive"},
	{readerMeets, "RenewKeepsAlive"},
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
	switch {
	case c.is(renewMeets) && !l.Shared(), c.is(readerMeets) && l.Shared():
		return true, q.inOneVersion(ctx, l, ttl, s.version)
	case c.is(renewalsMeet) && !l.Shared():
		return true, q.inOneVersion(ctx, l, ttl, s.renewals)
	}
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

// inOneVersion renews l by a compare-and-swap of the key's record, which the arrival of a waiter or a renewal changes.
// If the record has changed since it was read, the lease is reported as lost, as a bug.
func (q requests) inOneVersion(
	ctx context.Context, l *kit.Life, ttl time.Duration, version func(key string) int,
) error {
	var read int
	if err := q.c.do(ctx, func() { read = version(l.Key()) }); err != nil {
		return err
	}
	swapped := false
	err := q.c.do(ctx, func() { swapped = version(l.Key()) == read && q.c.renewed(l, ttl) })
	if err == nil && !swapped {
		err = backend.ErrLost
	}
	return err
}

// version returns the number of waiters that have come to wait for key.
func (s *server) version(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entryLocked(s.name(key)).happened.arrivals
}

// renewals returns the number of renewals of the lease on key.
func (s *server) renewals(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entryLocked(s.name(key)).renewals
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
