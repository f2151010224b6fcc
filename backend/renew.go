package backend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
	stop := context.AfterFunc(l.leases.base, cancel) // Close
	granted, err := l.leases.requests.RenewLease(rctx, l, ttl)
	stop()
	cancel()
	err, stray := l.endRenew(ctx, begun, granted, err)
	if stray {
		l.leases.giveBack(l)
	}
	return err
}

// A renewalUnderway is what beginRenew tells endRenew.
type renewalUnderway struct {
	ttl   time.Duration
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
		other, lost := l.renewing, l.lostLocked()
		s.mu.Unlock()
		select {
		case <-other:
		case <-lost:
		case <-ctx.Done():
			return renewalUnderway{}, ContextError(ctx, nil)
		}
		s.mu.Lock()
	}
	now := time.Now()
	call := func() {}
	if l.state == live && !now.Before(l.place.At()) { // the process slept past it and the timer has not run yet
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
	begun := renewalUnderway{sent: now, bound: l.place.At(), ttl: ttl}
	// The store may shorten the lease although its answer never arrives.
	if d := Deadline(now, ttl); d.Before(l.place.At()) {
		l.setDeadlineLocked(d)
	}
	l.renewing = make(chan struct{})
	return begun, nil
}

// unansweredLocked notes that a request for ttl may still be on its way to the store. Nothing says when it arrives, as long
// as the lease lives.
func (l *Life) unansweredLocked(ttl time.Duration) {
	if l.lateTTL > 0 {
		ttl = min(ttl, l.lateTTL)
	}
	l.lateTTL = ttl
	l.unsure = true
}

// prolongedLocked returns the TTL to count on of one granted. An earlier, shorter renewal that arrives after it cuts the
// lease short.
func (l *Life) prolongedLocked(granted time.Duration) time.Duration {
	if l.lateTTL > 0 {
		return min(granted, l.lateTTL)
	}
	return granted
}

// keptLocked notes that a request for ttl which has ended just now may have reached the store.
func (l *Life) keptLocked(ttl time.Duration) {
	if t := time.Now().Add(ttl); t.After(l.kept) {
		l.kept = t
	}
}

// endRenew enters the answer to a renewal. stray tells that the store has prolonged a lease that is over.
func (l *Life) endRenew(ctx context.Context, begun renewalUnderway, granted time.Duration, err error) (_ error, stray bool) {
	s := l.leases
	s.mu.Lock()
	close(l.renewing)
	l.renewing = nil
	l.keptLocked(max(begun.ttl, granted))
	call := func() {}
	switch {
	case errors.Is(err, ErrLost):
		l.unsure = false
		call = l.endLocked(lost)
	case l.state == live && l.pastLocked():
		// Answered or not, it came after the lease had ended: a renewal never revives.
		call = l.endLocked(lost)
		stray = err == nil
		l.unsure = l.unsure || err != nil
	case err == nil && l.state == live:
		l.unsure = l.lateTTL > 0
		l.setDeadlineLocked(Deadline(begun.sent, l.prolongedLocked(granted)))
	case err == nil:
		stray = l.state == lost
	default:
		l.unansweredLocked(begun.ttl)
		stray = l.state == lost && l.givenUp
	}
	over := l.overLocked()
	s.mu.Unlock()
	call()
	switch {
	case over != nil && err != nil && !errors.Is(err, ErrLost):
		return fmt.Errorf("%w (last error: %w)", over, err), stray
	case over != nil:
		return over, stray
	case err != nil:
		if cerr := ContextError(ctx, err); cerr != nil {
			err = cerr
		}
	}
	return err, stray
}
