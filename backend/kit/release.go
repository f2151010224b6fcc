package kit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// Release implements Lease.
func (l *Life) Release(ctx context.Context) error {
	bound, err := l.beginRelease(ctx)
	if bound == nil {
		return err
	}
	err = l.leases.requests.ReleaseLease(bound, l)
	if IsContextError(err) && Ended(bound) {
		err = fmt.Errorf("%w: no answer within %v", backend.ErrUnavailable, l.leases.timeout)
	}
	bound.cancel()
	// A context's error is never that of the caller's context, whose end bound ignores.
	return l.endRelease(NotOurs(context.Background(), err), bound != &l.release)
}

// beginRelease waits until no other release is under way, and moves a live lease to releasing. bound is the context of
// the request: l.release, or another one if an earlier release had an unknown outcome. If there is nothing to send,
// bound is nil, and Release returns err.
func (l *Life) beginRelease(ctx context.Context) (bound *bounded, err error) {
	s := l.leases
	s.mu.Lock()
	for l.releaseUnderWay {
		s.changed.Wait() // bounded by one release request
	}
	unsure := false
	now := l.granted.Add(time.Since(l.granted)) // the cheapest way to read the clock
	l.expireLocked(now)
	if l.state == releasing && s.Closed() {
		l.loseLocked(closed)
	}
	switch l.state {
	case live, releasing:
		bound = &l.release
		if l.state == releasing {
			bound = new(bounded) // an earlier attempt may still use the first context
		}
		bound.parent, bound.leases, bound.until = ctx, s, now.Sub(s.began)+s.timeout
		l.state = releasing
		s.clock.Remove(&l.deadlineEntry)
		l.releaseUnderWay = true
		s.underway.Add(1) // Close waits for it
	case lost:
		if unsure = (l.unansweredTTL > 0 || l.mayRegrant) && !s.Closed(); unsure {
			s.underway.Add(1) // Close waits for it
		}
		l.unansweredTTL, l.mayRegrant = 0, false
		l.lateRelease = true
		err = backend.ErrLost
	case closed:
		err = backend.ErrClosed
	}
	s.unlock()
	if unsure {
		_ = s.tryRelease(s.base, l) // the TTL ends the lease in any case
		s.Leave()
	}
	return bound, err
}

// endRelease records the answer to a release. It returns the error for the caller.
func (l *Life) endRelease(err error, repeated bool) error {
	s := l.leases
	s.mu.Lock()
	l.releaseUnderWay = false
	s.changed.Broadcast()
	answered := err == nil || errors.Is(err, backend.ErrLost)
	switch {
	case answered && (err == nil || repeated && time.Now().Before(l.deadlineEntry.At())):
		// The store has released the lease now or, before the deadline, at the attempt that was not answered.
		l.state = released
		l.onLost = nil
		err = nil
	case answered:
		l.loseLocked(lost)
	case s.Closed():
		l.loseLocked(closed)
		err = backend.ErrClosed
	}
	if l.mayRegrant || !answered && l.state == releasing {
		s.cleanUp(l, l.latestExpiry-time.Since(l.granted), l.mayRegrant)
	}
	s.Leave() // before the callbacks of unlock, which may call Close
	s.unlock()
	return err
}

// LostAfterDeadline returns the result of a release that finds nothing of the lease after an earlier request for it got
// no reply. Before the deadline it is nil, because the earlier request has removed the lease. Later it is
// [backend.ErrLost], because the lease may have ended first.
func (l *Life) LostAfterDeadline() error {
	if time.Now().Before(l.Deadline()) {
		return nil
	}
	return backend.ErrLost
}
