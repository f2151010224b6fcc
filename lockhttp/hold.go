package lockhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock"
)

// renew extends the lease that req describes to req.ttl from now.
func (s *Server) renew(ctx context.Context, req leaseRequest) (*claim, error) {
	c, resumed, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	if !resumed {
		err = c.lease.Renew(ctx, req.ttl)
	}
	s.endRequest(ctx, c, err)
	if !isEnded(err) {
		return c, err
	}
	s.end(c, errors.Is(err, lock.ErrLost))
	if errors.Is(err, lock.ErrLost) { // another server may have resumed the lease: check with the store
		if c, _, err = s.find(ctx, req); err == nil {
			s.endRequest(ctx, c, nil)
		}
	}
	return c, err
}

// endRequest ends a request of c's client that has used c's lease. The client gets the lease with the reply, unless the
// request has failed with err, or the client has disconnected.
func (s *Server) endRequest(ctx context.Context, c *claim, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.requests--
	c.answered = c.answered || err == nil && ctx.Err() == nil
	if c.requests == 0 && !c.answered && !c.ended {
		s.lingerLocked(c)
	}
}

// find returns the claim of req, with its lease, and counts the request among those of the claim: the caller calls
// endRequest. extended reports that this call has resumed the lease, with req.ttl.
func (s *Server) find(ctx context.Context, req leaseRequest) (_ *claim, extended bool, err error) {
	c, resumedLocked, err := s.known(ctx, req)
	if c != nil || err != nil {
		return c, false, err
	}
	lease, name, err := s.resumeRequested(ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	resumedLocked()
	if err == nil {
		s.endOtherLocked(req)
	}
	other := s.claims[req.id] // of an acquisition that began meanwhile
	switch {
	case err != nil:
	case s.stopped:
		err = errStopping
	case other != nil && other.lease == nil:
		err = lock.ErrLost
	case other == nil:
		req.label, req.shared = name.label, name.shared
		c := s.addClaimLocked(req)
		c.requests, c.answered = 1, true
		c.cancel()
		close(c.done)
		s.grantedLocked(c, lease)
		return c, true, nil
	}
	s.discountLocked(req.caller, func(u *usage) *int { return &u.leases })
	if err != nil {
		return nil, false, err
	}
	other.requests++
	return other, false, nil
}

// known returns the claim of req, with its lease, and counts the request there. It returns nil if this server does not
// know the lease: the caller then resumes the lease, which is counted, and calls resumedLocked.
func (s *Server) known(ctx context.Context, req leaseRequest) (_ *claim, resumedLocked func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.claimLocked(ctx, req)
	switch {
	case err != nil:
		return nil, nil, err
	case c != nil && c.lease == nil:
		return nil, nil, lock.ErrLost // not granted yet
	case c != nil:
		c.requests++
		return c, nil, nil
	}
	if err := s.countLeaseLocked(req.caller); err != nil { // before the lease is resumed, and so extended
		return nil, nil, err
	}
	return nil, s.resumesLocked(req.id), nil
}

// claimLocked returns the claim of req, or nil if this server does not know the lease. It waits while another request
// resumes that lease.
func (s *Server) claimLocked(ctx context.Context, req leaseRequest) (*claim, error) {
	for {
		c, other := s.claimOfLocked(req), s.resuming[req.id]
		if c != nil || other == nil {
			return c, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// resumesLocked notes that the caller resumes a lease of id. Only one request at a time does so, because a second
// handle of the lease would be reported as lost later. The caller calls resumedLocked at the end.
func (s *Server) resumesLocked(id claimID) (resumedLocked func()) {
	done := make(chan struct{})
	s.resuming[id] = done
	return func() {
		delete(s.resuming, id)
		close(done)
	}
}

// claimOfLocked returns the claim of req. It returns nil if there is none, or if req names another lease than the
// claim's.
func (s *Server) claimOfLocked(req leaseRequest) *claim {
	if c := s.claims[req.id]; c != nil && c.matches(req.name) {
		return c
	}
	return nil
}

// matches reports whether name is the name of c's lease, or no name.
func (c *claim) matches(name leaseName) bool {
	return name.base == "" || c.lease != nil && c.lease.Owner() == name.owner()
}

// endOtherLocked ends the claim of req's owner if req names another lease, which the store has just confirmed.
// Another server has granted that lease to the client since. A lease that the store does not confirm has ended: then
// the claim's lease is the later one, and stays.
func (s *Server) endOtherLocked(req leaseRequest) {
	c := s.claims[req.id]
	if c == nil || c.matches(req.name) {
		return
	}
	c.cancelled = true
	s.endLocked(c, false)
	c.stopAttemptLocked()
	if lease := c.lease; lease != nil && !s.stopped {
		s.background.Go(func() { _ = s.release(lease) })
	}
}

// resumeRequested resumes the lease that req describes, if this server does not know it.
func (s *Server) resumeRequested(ctx context.Context, req leaseRequest) (*lock.Lease, leaseName, error) {
	if !s.locks.Resumable() {
		return nil, leaseName{}, lock.ErrLost
	}
	name := req.name
	if name.base == "" {
		var err error
		if name, err = s.held(ctx, req.id, lock.Holder{}); err != nil {
			return nil, name, err
		}
	}
	if req.ttl == 0 {
		return nil, name, fmt.Errorf("%w: ttl_ms is missing: this server does not know the lease yet, and would extend it",
			lock.ErrInvalid)
	}
	lease, err := s.resume(ctx, req.id.key, name, req.ttl)
	return lease, name, err
}

// releaseOrCancel releases the lease that req describes, or ends the wait for it.
func (s *Server) releaseOrCancel(ctx context.Context, req leaseRequest) error {
	s.mu.Lock()
	c, err := s.claimLocked(ctx, req)
	switch {
	case err != nil:
		s.mu.Unlock()
		return err
	case c == nil:
		resumedLocked := s.resumesLocked(req.id)
		s.mu.Unlock()
		return s.releaseUnknown(ctx, req, resumedLocked)
	case c.lease == nil: // the attempt releases whatever it is granted
		c.cancelled = true
		s.endLocked(c, false)
		c.stopAttemptLocked()
		s.mu.Unlock()
		select {
		case <-c.done:
			return c.releaseErr
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Unlock()
	err = c.lease.Release(ctx)
	switch {
	case errors.Is(err, lock.ErrLost): // another server may have resumed the lease: check with the store
		s.end(c, true)
		return s.releaseOrCancel(ctx, req)
	case err == nil || isEnded(err):
		s.end(c, false)
	default:
		s.endAtDeadline(c)
	}
	return err
}

// endAtDeadline ends c when its lease has run out, because nobody may repeat a release without a reply, and the lease
// of a claim that was released is never reported as lost.
func (s *Server) endAtDeadline(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.ended || c.expiry != nil {
		return
	}
	c.expiry = time.AfterFunc(time.Until(c.lease.Deadline()), func() { s.end(c, false) })
}

// releaseUnknown releases a lease that this server does not know, and calls resumedLocked.
func (s *Server) releaseUnknown(ctx context.Context, req leaseRequest, resumedLocked func()) error {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		resumedLocked()
	}()
	lease, _, err := s.resumeRequested(ctx, req)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.endOtherLocked(req) // before the release, which could grant the key to its attempt
	s.mu.Unlock()
	return lease.Release(ctx)
}

// remaining returns how long after since the lease of c is exclusive. It subtracts a hundredth, because the client's
// clock may run slower than ours.
func (c *claim) remaining(since time.Time) time.Duration {
	left := c.lease.Deadline().Sub(since)
	return left - left/100
}
