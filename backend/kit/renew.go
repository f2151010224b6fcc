package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// Renew implements Lease.
func (l *Life) Renew(ctx context.Context, ttl time.Duration) error {
	g := l.leases.requests.Guarantees()
	if err := g.ValidateTTL(ttl); err != nil {
		return err
	}
	ttl = g.Round(ttl)
	u, bound, err := l.beginRenew(ctx, ttl)
	if err != nil {
		return err
	}
	rctx, cancel := context.WithDeadline(ctx, bound)
	stop := context.AfterFunc(l.leases.base, cancel) // Close
	granted, err := l.leases.requests.RenewLease(rctx, l, ttl)
	stop()
	cancel()
	var then afterwards
	l.leases.mu.Lock()
	over := l.endRenewLocked(u, granted, err, time.Now(), &then)
	l.leases.mu.Unlock()
	then.run(l.leases)
	return renewError(ctx, over, err)
}

// afterwards is what renewals leave to be done without the lock.
type afterwards struct {
	callbacks []func() // that notify holders of a loss
	giveBack  []*Life  // leases that the store has extended after their end
}

// add adds a callback, unless it is nil.
func (a *afterwards) add(callback func()) {
	if callback != nil {
		a.callbacks = append(a.callbacks, callback)
	}
}

func (a *afterwards) run(s *Leases) {
	for _, callback := range a.callbacks {
		callback()
	}
	s.giveBack(a.giveBack...)
}

// An underway is a renewal that has been asked for.
type underway struct {
	ttl  time.Duration
	sent time.Time
}

// waitingLocked is the unknown outcome of a renewal that was not sent because the store has not answered another one.
func (l *Life) waitingLocked(now time.Time) error {
	silence := now.Sub(l.granted) - l.asked
	return fmt.Errorf("%w: no answer for %v to the previous renewal", backend.ErrUnavailable,
		silence.Round(time.Millisecond))
}

// beginRenew waits until no other renewal is under way, and begins one.
func (l *Life) beginRenew(ctx context.Context, ttl time.Duration) (u underway, bound time.Time, err error) {
	s := l.leases
	s.mu.Lock()
	for l.state == live && l.renewing {
		if l.renewed == nil {
			l.renewed = make(chan struct{})
		}
		other, lost := l.renewed, l.lostLocked()
		s.mu.Unlock()
		select {
		case <-other:
		case <-lost:
		case <-ctx.Done():
			return u, bound, ContextError(ctx, nil)
		}
		s.mu.Lock()
	}
	u = underway{ttl, time.Now()}
	var then afterwards
	bound, err = l.beginRenewLocked(ContextError(ctx, nil), ttl, u.sent, &then)
	s.mu.Unlock()
	then.run(s)
	return u, bound, err
}

// beginRenewLocked begins a renewal sent now, unless the lease is over, or else ended is an error. bound is the
// deadline that the lease has when the request is sent: no answer after it counts.
func (l *Life) beginRenewLocked(
	ended error, ttl time.Duration, now time.Time, then *afterwards,
) (bound time.Time, err error) {
	bound = l.place.At()
	if l.state == live && !now.Before(bound) { // the process slept past it and the timer has not run yet
		then.add(l.endLocked(lost))
	}
	if err := cmp.Or(l.overLocked(), ended); err != nil {
		return bound, err
	}
	// The store may shorten the lease although its answer never arrives.
	if d := backend.Deadline(now, ttl); d.Before(bound) {
		l.setDeadlineLocked(d)
	}
	l.renewing, l.asked = true, now.Sub(l.granted)
	return bound, nil
}

// unansweredLocked notes that a request for ttl may still be on its way to the store. Nothing says when it arrives, as
// long as the lease lives.
func (l *Life) unansweredLocked(ttl time.Duration) {
	if l.lateTTL > 0 {
		ttl = min(ttl, l.lateTTL)
	}
	l.lateTTL = ttl
	l.unsure = true
}

// prolongedLocked returns the TTL to count on of one granted. An earlier, shorter renewal that arrives after it cuts
// the lease short.
func (l *Life) prolongedLocked(granted time.Duration) time.Duration {
	if l.lateTTL > 0 {
		return min(granted, l.lateTTL)
	}
	return granted
}

// keptLocked notes that a request for ttl which has ended just now may have reached the store.
func (l *Life) keptLocked(now time.Time, ttl time.Duration) {
	l.kept = max(l.kept, now.Sub(l.granted)+ttl)
}

// endRenewLocked enters the answer to a renewal. over is the error of a lease that is not live any more.
func (l *Life) endRenewLocked(
	u underway, granted time.Duration, err error, now time.Time, then *afterwards,
) (over error) {
	l.renewing = false
	if l.renewed != nil {
		close(l.renewed)
		l.renewed = nil
	}
	l.keptLocked(now, max(u.ttl, granted))
	extended := false // after its end
	switch {
	case errors.Is(err, backend.ErrLost):
		l.unsure = false
		then.add(l.endLocked(lost))
	case l.state == live && !now.Before(l.place.At()):
		// Answered or not, it came after the lease had ended: a renewal never revives.
		then.add(l.endLocked(lost))
		extended = err == nil
		l.unsure = l.unsure || err != nil
	case err == nil && l.state == live:
		l.unsure = l.lateTTL > 0
		l.setDeadlineLocked(backend.Deadline(u.sent, l.prolongedLocked(granted)))
	case err == nil:
		extended = l.state == lost
	default:
		l.unansweredLocked(u.ttl)
		extended = l.state == lost && l.lateRelease // perhaps
	}
	if extended {
		then.giveBack = append(then.giveBack, l)
	}
	return l.overLocked()
}

// renewError is what a renewal returns that ended with err, of a lease that is over if that is not nil.
func renewError(ctx context.Context, over, err error) error {
	err = NotOurs(ctx, err)
	switch {
	case over != nil && err != nil && !errors.Is(err, backend.ErrLost):
		return fmt.Errorf("%w (last error: %w)", over, err)
	case over != nil:
		return over
	case err != nil:
		if cerr := ContextError(ctx, err); cerr != nil {
			return cerr
		}
	}
	return err
}
