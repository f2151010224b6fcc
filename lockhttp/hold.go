package lockhttp

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock"
)

// renew extends the lease that want describes to want.ttl from now.
func (s *Server) renew(ctx context.Context, want leaseRequest) (*claim, error) {
	c, resumed, err := s.find(ctx, want)
	if err != nil || resumed {
		return c, err
	}
	err = c.lease.Renew(ctx, want.ttl)
	if !isOver(err) {
		return c, err
	}
	s.end(c, errors.Is(err, lock.ErrLost))
	if errors.Is(err, lock.ErrLost) { // another server may have resumed the lease: check with the store
		c, _, err = s.find(ctx, want)
	}
	return c, err
}

// find returns the claim of want, with its lease. resumed reports that this call has resumed the lease, with want.ttl.
func (s *Server) find(ctx context.Context, want leaseRequest) (_ *claim, resumed bool, err error) {
	s.mu.Lock()
	c := s.claimOfLocked(want)
	if c != nil && c.lease != nil {
		c.answered = true
		s.mu.Unlock()
		return c, false, nil
	}
	s.mu.Unlock()
	if c != nil {
		return nil, false, lock.ErrLost // not granted yet
	}
	lease, name, err := s.resumeWanted(ctx, want)
	if err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, false, errStopping
	}
	if other := s.claims[want.id]; other != nil { // a concurrent request was first
		if other.lease == nil {
			return nil, false, lock.ErrLost
		}
		return other, false, nil
	}
	want.label, want.shared = name.label, name.shared
	c, err = s.newClaimLocked(want)
	if err != nil {
		return nil, false, err
	}
	c.answered = true
	c.cancel()
	close(c.done)
	s.grantedLocked(c, lease)
	return c, true, nil
}

// claimOfLocked returns the claim of want. If want names another lease than the claim's, another server has granted
// that lease to the client since. claimOfLocked then ends the claim and returns nil.
func (s *Server) claimOfLocked(want leaseRequest) *claim {
	c := s.claims[want.id]
	if c == nil || want.name.base == "" || c.lease != nil && c.lease.Owner() == want.name.owner() {
		return c
	}
	c.dropped = true
	s.endLocked(c, false)
	c.stopAttemptLocked()
	if lease := c.lease; lease != nil && !s.stopped {
		s.background.Go(func() { s.release(lease) })
	}
	return nil
}

// resumeWanted resumes the lease that want describes, if this server does not know it.
func (s *Server) resumeWanted(ctx context.Context, want leaseRequest) (*lock.Lease, leaseName, error) {
	if !s.locks.Resumable() {
		return nil, leaseName{}, lock.ErrLost
	}
	name := want.name
	if name.base == "" {
		var err error
		if name, err = s.held(ctx, want.id, lock.Holder{}); err != nil {
			return nil, name, err
		}
	}
	lease, err := s.resume(ctx, want.id.key, name, want.ttl)
	return lease, name, err
}

// drop releases the lease that want describes, or ends the wait for it.
func (s *Server) drop(ctx context.Context, want leaseRequest) error {
	s.mu.Lock()
	c := s.claimOfLocked(want)
	if c != nil && c.lease == nil { // the attempt releases whatever it is granted
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
		return s.dropUnknown(ctx, want)
	}
	err := c.lease.Release(ctx)
	if err == nil || isOver(err) {
		s.end(c, errors.Is(err, lock.ErrLost))
	}
	if errors.Is(err, lock.ErrLost) { // another server may have resumed the lease: check with the store
		return s.dropUnknown(ctx, want)
	}
	return err
}

// dropUnknown releases a lease that this server does not know.
func (s *Server) dropUnknown(ctx context.Context, want leaseRequest) error {
	lease, _, err := s.resumeWanted(ctx, want)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// remaining returns how long after since the lease of c is exclusive. It subtracts a hundredth, because the client's
// clock may run slower than ours.
func (c *claim) remaining(since time.Time) time.Duration {
	left := c.lease.Deadline().Sub(since)
	return left - left/100
}
