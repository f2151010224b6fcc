package lockhttp

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock"
)

// renew extends the lease of id to ttl from now.
func (s *Server) renew(ctx context.Context, id claimID, from caller, ttl time.Duration) (*claim, error) {
	c, resumed, err := s.find(ctx, id, from, ttl)
	if err != nil || resumed {
		return c, err
	}
	err = c.lease.Renew(ctx, ttl)
	if isOver(err) {
		s.end(c, errors.Is(err, lock.ErrLost))
	}
	return c, err
}

// find returns the claim of id with its lease. resumed means that this call has resumed the lease, with ttl.
func (s *Server) find(ctx context.Context, id claimID, from caller, ttl time.Duration) (_ *claim, resumed bool, err error) {
	s.mu.Lock()
	c := s.claims[id]
	if c != nil && c.lease != nil {
		c.answered = true
		s.mu.Unlock()
		return c, false, nil
	}
	s.mu.Unlock()
	if c != nil {
		return nil, false, lock.ErrLost // not granted yet
	}
	lease, err := s.resume(ctx, id, ttl, nil)
	if err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, false, errStopping
	}
	if other := s.claims[id]; other != nil { // a request at the same time
		if other.lease == nil {
			return nil, false, lock.ErrLost
		}
		return other, false, nil
	}
	c, err = s.newClaimLocked(id, from, ttl)
	if err != nil {
		return nil, false, err
	}
	c.answered = true
	c.cancel()
	close(c.done)
	s.grantedLocked(c, lease)
	return c, true, nil
}

// drop releases the lease of id, or ends its wait.
func (s *Server) drop(ctx context.Context, id claimID) error {
	s.mu.Lock()
	c := s.claims[id]
	if c != nil && c.lease == nil { // its attempt ends what it may be granted
		c.dropped = true
		s.endLocked(c, false)
		c.stopAttemptLocked()
		s.mu.Unlock()
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Unlock()
	if c == nil {
		lease, err := s.resume(ctx, id, s.options.DefaultTTL, nil)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
	err := c.lease.Release(ctx)
	if err == nil || isOver(err) {
		s.end(c, errors.Is(err, lock.ErrLost))
	}
	return err
}

// remaining is how long after since the lease of c is exclusive, by a clock that may run faster or slower by a
// hundredth.
func (c *claim) remaining(since time.Time) time.Duration {
	left := c.lease.Deadline().Sub(since)
	return left - left/100
}
