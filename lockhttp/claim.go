package lockhttp

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock"
)

// A claimID identifies a claim by its key and the owner's base: see baseOwner.
type claimID struct{ key, base string }

// A claim is a lease that a client holds or is trying to acquire through this server. Server.mu guards its fields.
type claim struct {
	id      claimID
	caller  caller
	ttl     time.Duration
	request leaseRequest // the request that made the claim
	label   string
	shared  bool
	since   time.Time
	info    []byte // Terraform's lock information, for the error that the next client gets

	ctx        context.Context // of the attempt
	cancel     context.CancelFunc
	waits      bool          // the attempt waits for a busy key
	done       chan struct{} // closed at the end of the attempt
	err        error         // of the attempt
	releaseErr error         // of the release of a lease that was granted after the claim's end; read it after done
	requests   int           // how many requests wait for the attempt, or use the lease
	answered   bool          // a request has returned the lease to the client
	linger     *time.Timer   // ends a claim that no request waits for
	lease      *lock.Lease   // once granted
	expiry     *time.Timer   // ends a claim whose release got no reply
	ended      bool          // removed from Server.claims
	whenEnded  chan struct{} // closed when the claim ends
	lost       bool          // the claim ended because its lease was lost
	cancelled  bool          // ended by a release, or because the client holds another lease
}

// newClaimLocked adds a claim, and counts its lease. The caller starts its attempt.
func (s *Server) newClaimLocked(req leaseRequest) (*claim, error) {
	if err := s.countLeaseLocked(req.caller); err != nil {
		return nil, err
	}
	return s.addClaimLocked(req), nil
}

// countLeaseLocked counts a lease of from, unless from or the server has as many as allowed.
func (s *Server) countLeaseLocked(from caller) error {
	return s.countLocked(from, func(u *usage) *int { return &u.leases }, s.options.MaxLeases,
		s.options.MaxLeasesPerClient, "leases")
}

// addClaimLocked adds a claim whose lease has been counted.
func (s *Server) addClaimLocked(req leaseRequest) *claim {
	c := &claim{
		id: req.id, caller: req.caller, ttl: req.ttl, request: req, label: req.label, shared: req.shared,
		done: make(chan struct{}), whenEnded: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	s.claims[req.id] = c
	return c
}

// endLocked removes a claim. lost means that its lease ended without a release.
func (s *Server) endLocked(c *claim, lost bool) {
	if c.ended {
		return
	}
	c.ended, c.lost = true, lost
	if s.claims[c.id] == c {
		delete(s.claims, c.id)
	}
	if c.linger != nil {
		c.linger.Stop()
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	s.discountLocked(c.caller, func(u *usage) *int { return &u.leases })
	if lost {
		s.noteLossLocked(c)
	}
	close(c.whenEnded)
}

func (s *Server) end(c *claim, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(c, lost)
}

func (c *claim) attemptEnded() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// stopAttemptLocked cancels the attempt if that is still running.
func (c *claim) stopAttemptLocked() {
	if !c.attemptEnded() {
		c.cancel()
	}
}

// attempt acquires the key for c. A goroutine then waits for the end of the lease.
func (s *Server) attempt(c *claim) {
	lease, err := s.request(c)
	s.mu.Lock()
	switch {
	case err != nil:
		c.err = err
		s.endLocked(c, false)
	case s.stopped && c.requests == 0: // every request has got 503
		s.endLocked(c, false)
		fallthrough
	case c.ended: // ended by a release, or abandoned because no further request arrived
		s.mu.Unlock()
		c.releaseErr = s.release(lease)
		s.mu.Lock()
	default:
		s.grantedLocked(c, lease)
		if c.requests == 0 {
			s.lingerLocked(c)
		}
	}
	close(c.done)
	s.mu.Unlock()
	c.cancel()
}

// grantedLocked stores the lease in c, and ends c when the lease is lost.
func (s *Server) grantedLocked(c *claim, lease *lock.Lease) {
	c.lease, c.since = lease, time.Now()
	s.metrics.grants.Add(1)
	s.background.Go(func() {
		select {
		case <-lease.Lost():
			s.end(c, true)
		case <-c.whenEnded:
		case <-s.stopping:
		}
	})
}

// request sends the requests of c's attempt to the store.
func (s *Server) request(c *claim) (*lock.Lease, error) {
	lease, err := s.locks.TryAcquire(c.ctx, c.id.key, s.terms(c)...)
	if !errors.Is(err, lock.ErrHeld) {
		return lease, err
	}
	if c.request.retry {
		ended, berr := s.endUnanswered(c, err)
		switch {
		case berr != nil:
			return nil, berr
		case ended && !c.waits:
			return s.locks.TryAcquire(c.ctx, c.id.key, s.terms(c)...)
		}
	}
	if !c.waits {
		return nil, err
	}
	return s.locks.Acquire(c.ctx, c.id.key, s.terms(c)...)
}

// terms returns the options of one attempt. Each attempt has its own owner at the store.
func (s *Server) terms(c *claim) []lock.AcquireOption {
	return leaseOptions(newLeaseName(c.id.base, c.label, c.shared), c.ttl)
}

func leaseOptions(name leaseName, ttl time.Duration) []lock.AcquireOption {
	options := []lock.AcquireOption{lock.WithOwner(name.owner()), lock.WithTTL(ttl), lock.WithoutRenewal()}
	if name.shared {
		options = append(options, lock.Shared())
	}
	return options
}

// endUnanswered ends a lease that was granted to c's client, but whose grant the client never received. Another server,
// or this one before a restart, acquired the lease. It must not be resumed, because a server that is still alive may
// release it. busy is the store's reply that the key is held.
func (s *Server) endUnanswered(c *claim, busy error) (ended bool, err error) {
	var holder lock.Holder
	if held, ok := errors.AsType[*lock.HeldError](busy); ok {
		holder = held.Holder
	}
	name, err := s.held(c.ctx, c.id, holder)
	if err == nil {
		err = s.locks.Ops().Break(c.ctx, c.id.key, name.owner())
	}
	if errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrUnsupported) {
		return false, nil
	}
	return err == nil, err
}

// held returns the name of the lease that id holds at the store. holder is what the store has already reported, zero if
// nothing. If there are several shared leases, the store reports only the one that ends last, so held does not find the
// others.
func (s *Server) held(ctx context.Context, id claimID, holder lock.Holder) (leaseName, error) {
	if !holder.Held() {
		var err error
		if holder, err = s.locks.Ops().Inspect(ctx, id.key); err != nil {
			return leaseName{}, err
		}
	}
	name, ok := parseLeaseName(holder.Owner)
	if !ok || name.base != id.base {
		return leaseName{}, lock.ErrLost
	}
	return name, nil
}

// resume returns the lease that the store keeps under name, extended to ttl. The error is ErrLost if there is none.
func (s *Server) resume(ctx context.Context, key string, name leaseName, ttl time.Duration) (*lock.Lease, error) {
	return s.locks.Resume(ctx, key, name.owner(), leaseOptions(name, ttl)...)
}

// lingerLocked ends c after Options.Linger, unless another request for c arrives before. After Shutdown, which does not
// wait for the caller, it ends c at once. Meanwhile it unlocks Server.mu.
func (s *Server) lingerLocked(c *claim) {
	if s.stopped {
		s.mu.Unlock()
		s.abandon(c)
		s.mu.Lock()
		return
	}
	if c.linger != nil {
		c.linger.Stop()
	}
	c.linger = time.AfterFunc(s.options.Linger, func() { s.abandon(c) })
}

// abandon ends a claim whose client has not received the lease and does not wait for it.
func (s *Server) abandon(c *claim) {
	s.mu.Lock()
	if c.ended || c.requests > 0 || c.answered {
		s.mu.Unlock()
		return
	}
	s.endLocked(c, false)
	lease := c.lease
	c.stopAttemptLocked()
	s.mu.Unlock()
	if lease != nil {
		_ = s.release(lease)
	}
}

// releaseTime bounds a release that no request waits for.
const releaseTime = 10 * time.Second

// release releases a lease that no client knows of. An error means that the store may keep the lease until its TTL
// ends.
func (s *Server) release(lease *lock.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	err := lease.Release(ctx)
	if err == nil || isEnded(err) {
		return nil
	}
	s.warn("release failed", "key", lease.Key(), "error", err)
	return err
}
