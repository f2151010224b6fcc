package backend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Requests are what a store asks of its servers about one lease. Leases calls them; a store writes only these and its
// own Acquire. Both may be called by many goroutines at once, must honour ctx, and must be bounded by a timeout of
// their own where the client library does not honour ctx.
type Requests interface {
	// RenewLease prolongs the lease of l.Key and l.Owner to ttl from the moment the store sees the request, once, and
	// returns the TTL granted, which is at least ttl. ErrLost means that the store answered and the owner does not hold
	// the key; it never creates a lease anew. Any other error means unknown.
	RenewLease(ctx context.Context, l *Life, ttl time.Duration) (granted time.Duration, err error)

	// ReleaseLease removes whatever the store keeps of l.Owner on l.Key: its lease, or its place in a queue. nil means
	// removed; ErrLost that the store answered and there was nothing of this owner. Any other error means unknown. It
	// is repeated after an unknown outcome, and also called for an owner whose Acquire went unanswered: then l.Data is
	// nil.
	ReleaseLease(ctx context.Context, l *Life) error
}

type state int

const (
	live      state = iota
	releasing       // Release has begun: the holder has given up its claim
	released
	lost
	closed // its Leases was closed
)

// A Life is the life of one granted lease: granted, renewed, then released or lost. It is the Lease that stores built on
// Leases hand out.
type Life struct {
	Data any // the store's own, set at grant; the store guards it

	leases *Leases
	key    string
	owner  string
	token  uint64
	lost   chan struct{}

	// Guarded by leases.mu.
	state    state
	deadline time.Time
	ttl      time.Duration // last granted
	index    int           // in leases.heap, -1 when not there
	renewing chan struct{} // not nil while a renewal is under way, closed at its end
	ending   chan struct{} // not nil while a release is under way, closed at its end
	unsure   bool          // a renewal had an unknown outcome: the store may hold the key for longer than we do
	onLost   []*callback
}

type callback struct{ f func() }

// Key is the key that is leased.
func (l *Life) Key() string { return l.key }

// Owner is the owner that holds the lease.
func (l *Life) Owner() string { return l.owner }

// Token implements Lease.
func (l *Life) Token() uint64 { return l.token }

// Lost implements Lease.
func (l *Life) Lost() <-chan struct{} { return l.lost }

// Deadline implements Lease.
func (l *Life) Deadline() time.Time {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	return l.deadline
}

// OnLost implements LossNotifier.
func (l *Life) OnLost(f func()) (stop func() bool) {
	s := l.leases
	s.mu.Lock()
	if l.state == lost || l.state == closed {
		s.mu.Unlock()
		f()
		return func() bool { return false }
	}
	c := &callback{f}
	l.onLost = append(l.onLost, c)
	s.mu.Unlock()
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, o := range l.onLost {
			if o == c {
				l.onLost = append(l.onLost[:i], l.onLost[i+1:]...)
				return true
			}
		}
		return false
	}
}

// Lose ends the lease because the store said that it is gone, as when a session or connection has ended. It does
// nothing once the lease is over or its holder has begun to release it.
func (l *Life) Lose() {
	l.leases.mu.Lock()
	call := l.endLocked(lost)
	l.leases.mu.Unlock()
	call()
}

// endLocked moves a live lease to lost or closed, closes Lost, and returns what to run after unlocking.
func (l *Life) endLocked(to state) (call func()) {
	if l.state != live {
		return func() {}
	}
	l.state = to
	l.leases.removeLocked(l)
	close(l.lost)
	calls := l.onLost
	l.onLost = nil
	return func() {
		for _, c := range calls {
			c.f()
		}
	}
}

// overLocked is the error of a call on a lease that is not live, nil if it is.
func (l *Life) overLocked() error {
	switch l.state {
	case live:
		return nil
	case closed:
		return ErrClosed
	default:
		return ErrLost
	}
}

// Renew implements Lease.
func (l *Life) Renew(ctx context.Context, ttl time.Duration) error {
	if err := ValidateTTL(ttl); err != nil {
		return err
	}
	begun, err := l.beginRenew(ctx, ttl, true)
	if err != nil {
		return err
	}
	rctx, cancel := context.WithDeadline(ctx, begun.bound)
	granted, err := l.leases.requests.RenewLease(rctx, l, ttl)
	cancel()
	return l.endRenew(ctx, begun, granted, err)
}

// A renewalUnderway is what beginRenew tells endRenew.
type renewalUnderway struct {
	sent  time.Time
	bound time.Time // the deadline when the request was sent: no answer after it counts
}

// errRenewing is the unknown outcome of a renewal that was not sent because another is under way.
var errRenewing = errors.New("another renewal of this lease is under way")

func (l *Life) beginRenew(ctx context.Context, ttl time.Duration, wait bool) (renewalUnderway, error) {
	s := l.leases
	s.mu.Lock()
	for l.state == live && l.renewing != nil {
		if !wait {
			s.mu.Unlock()
			return renewalUnderway{}, errRenewing
		}
		other := l.renewing
		s.mu.Unlock()
		select {
		case <-other:
		case <-l.lost:
		case <-ctx.Done():
			return renewalUnderway{}, ContextError(ctx, nil)
		}
		s.mu.Lock()
	}
	now := time.Now()
	call := func() {}
	if l.state == live && !now.Before(l.deadline) { // the process slept past it and the timer has not run yet
		call = l.endLocked(lost)
	}
	if err := l.overLocked(); err != nil {
		s.mu.Unlock()
		call()
		return renewalUnderway{}, err
	}
	defer s.mu.Unlock()
	if err := ContextError(ctx, nil); err != nil {
		return renewalUnderway{}, err
	}
	begun := renewalUnderway{sent: now, bound: l.deadline}
	// The store may shorten the lease although its answer never arrives.
	if d := Deadline(now, ttl); d.Before(l.deadline) {
		l.setDeadlineLocked(d)
	}
	l.renewing = make(chan struct{})
	return begun, nil
}

func (l *Life) endRenew(ctx context.Context, begun renewalUnderway, granted time.Duration, err error) error {
	s := l.leases
	s.mu.Lock()
	close(l.renewing)
	l.renewing = nil
	call := func() {}
	stray := false
	switch {
	case errors.Is(err, ErrLost):
		l.unsure = false
		call = l.endLocked(lost)
	case l.state == live && !time.Now().Before(begun.bound):
		// Answered or not, it came after the lease had ended: a renewal never revives.
		call = l.endLocked(lost)
		stray = err == nil
		l.unsure = l.unsure || err != nil
	case err == nil && l.state == live:
		l.unsure = false
		l.ttl = granted
		l.setDeadlineLocked(Deadline(begun.sent, granted))
	case err == nil:
		stray = l.state == lost
	default:
		l.unsure = true
	}
	over := l.overLocked()
	s.mu.Unlock()
	call()
	if stray {
		s.releaseOnce(l)
	}
	switch {
	case over != nil && err != nil && !errors.Is(err, ErrLost):
		return fmt.Errorf("%w (last error: %w)", over, err)
	case over != nil:
		return over
	case err != nil && ctx.Err() != nil:
		return ContextError(ctx, err)
	}
	return err
}

// Release implements Lease.
func (l *Life) Release(ctx context.Context) error {
	s := l.leases
	s.mu.Lock()
	for l.ending != nil {
		other := l.ending
		s.mu.Unlock()
		<-other // bounded: one release request
		s.mu.Lock()
	}
	call := func() {}
	if l.state == live && !time.Now().Before(l.deadline) {
		call = l.endLocked(lost)
	}
	if l.state != live && l.state != releasing {
		err := l.overLocked()
		if l.state == released {
			err = nil
		}
		unsure := l.unsure && l.state == lost
		l.unsure = false
		s.mu.Unlock()
		call()
		if unsure {
			s.releaseOnce(l)
		}
		return err
	}
	repeated := l.state == releasing // an earlier attempt had an unknown outcome
	l.state = releasing
	s.removeLocked(l)
	l.onLost = nil
	l.ending = make(chan struct{})
	s.mu.Unlock()

	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	err := s.requests.ReleaseLease(rctx, l)
	cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	close(l.ending)
	l.ending = nil
	switch {
	case err == nil:
		l.state = released
	case errors.Is(err, ErrLost) && repeated:
		l.state = released // the attempt that went unanswered did it
		err = nil
	case errors.Is(err, ErrLost):
		l.state = lost
		close(l.lost)
	case s.closed:
		l.state = closed
		close(l.lost)
		err = ErrClosed
	default:
		s.abandonLocked(l.key, l.owner, l.Data, time.Until(l.deadline)+Margin(l.ttl))
	}
	return err
}
