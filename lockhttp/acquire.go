package lockhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock"
)

var (
	errStopping = errors.New("the server is shutting down")
	errStarting = errors.New("the server grants nothing yet: leases of an earlier process may still be in use")
	errReleased = errors.New("a release of the same owner ended the wait")
	errLimit    = errors.New("too many")
)

// acquire acquires the lease that req describes. It waits up to wait for a busy key. If the owner already holds the
// lease, acquire extends it.
func (s *Server) acquire(ctx context.Context, req leaseRequest, wait time.Duration) (*claim, error) {
	end := time.Now().Add(wait)
	if err := s.awaitOpening(ctx, req.caller, wait); err != nil {
		return nil, err
	}
	if req.name.base != "" { // a lease of an earlier reply, perhaps of another server
		if c, err := s.renew(ctx, req); !isEnded(err) {
			return c, err
		}
	}
	for {
		c, held, err := s.addRequest(req, wait > 0)
		switch {
		case err != nil:
			return nil, err
		case held:
			err := c.lease.Renew(ctx, req.ttl)
			s.endRequest(ctx, c, err)
			if isEnded(err) {
				s.end(c, errors.Is(err, lock.ErrLost))
				continue
			}
			return c, err
		}
		err = s.await(ctx, c, req.caller, end, wait > 0)
		// The attempt of an earlier request that does not wait has failed; start an attempt that waits.
		again := errors.Is(err, lock.ErrHeld) && c.attemptEnded() && !c.waits && wait > 0
		if again && time.Now().Before(end) {
			continue
		}
		return c, err
	}
}

// isEnded reports whether a lease whose renewal or release returned err has ended.
func isEnded(err error) bool {
	return errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrReleased)
}

// addRequest returns the claim of req, counts the request there, and starts an attempt if there is no claim yet. The
// caller calls endRequest if the lease is already held, and otherwise await.
func (s *Server) addRequest(req leaseRequest, waits bool) (_ *claim, held bool, err error) {
	id, from := req.id, req.caller
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, false, errStopping
	}
	c := s.claims[id]
	if c != nil && c.shared != req.shared {
		return nil, false, fmt.Errorf("%w: this owner has a request in the other mode; use a new owner", lock.ErrInvalid)
	}
	if c != nil && c.lease != nil {
		c.requests++
		return c, true, nil
	}
	if waits {
		if err := s.countLocked(from, func(u *usage) *int { return &u.waiters }, s.options.MaxWaiters,
			s.options.MaxWaitersPerClient, "waiting requests"); err != nil {
			return nil, false, err
		}
		s.waiters[id.key]++
	}
	if c == nil {
		if c, err = s.newClaimLocked(req); err != nil {
			if waits {
				s.uncountWaiterLocked(id.key, from)
			}
			return nil, false, err
		}
		c.waits = waits
		s.background.Go(func() { s.attempt(c) })
	}
	c.requests++
	if c.linger != nil {
		c.linger.Stop()
	}
	return c, false, nil
}

func (s *Server) uncountWaiterLocked(key string, from caller) {
	s.discountLocked(from, func(u *usage) *int { return &u.waiters })
	if s.waiters[key]--; s.waiters[key] == 0 {
		delete(s.waiters, key)
	}
}

// await waits for the end of c's attempt, on behalf of a request that has joined it.
func (s *Server) await(ctx context.Context, c *claim, from caller, end time.Time, waits bool) (err error) {
	var limit <-chan time.Time
	if c.waits {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-c.done:
	case <-limit:
		err = lock.ErrHeld
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.stopping:
		err = errStopping
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.requests--
	if waits {
		s.uncountWaiterLocked(c.id.key, from)
	}
	switch {
	case c.lease != nil && !c.ended && ctx.Err() != nil: // the client has disconnected, and does not get the lease
		if c.requests == 0 {
			s.lingerLocked(c)
		}
		return ctx.Err()
	case c.lease != nil && !c.ended:
		c.answered = true
		return nil
	case s.stopped:
		return errStopping
	case c.cancelled:
		return errReleased
	case c.attemptEnded():
		return cmp.Or(c.err, err, lock.ErrLost)
	case c.requests == 0 && !c.ended:
		s.lingerLocked(c)
	}
	return err
}

// awaitOpening waits for the end of the start delay.
func (s *Server) awaitOpening(ctx context.Context, from caller, wait time.Duration) error {
	delay := time.Until(s.opensAt)
	if delay <= 0 {
		return nil
	}
	if delay > wait {
		return fmt.Errorf("%w (for %v more)", errStarting, delay.Round(time.Millisecond))
	}
	discount, err := s.count(from, func(u *usage) *int { return &u.waiters }, s.options.MaxWaiters,
		s.options.MaxWaitersPerClient, "waiting requests")
	if err != nil {
		return err
	}
	defer discount()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopping:
		return errStopping
	}
}
