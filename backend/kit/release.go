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
	repeated, over, err := l.beginRelease()
	if over {
		return err
	}
	bound := &l.release
	if repeated {
		bound = new(bounded) // something of an earlier attempt may still go by the first
	}
	bound.parent, bound.leases = ctx, l.leases // its base ends with Close's grace
	err = l.leases.requests.ReleaseLease(bound, l)
	switch { // a context that has ended is not the caller's, whose does not count here
	case !IsContextError(err):
	case Ended(bound):
		err = fmt.Errorf("%w: no answer within %v", backend.ErrUnavailable, l.leases.timeout)
	default:
		err = fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
	}
	bound.cancel()
	return l.endRelease(err, repeated)
}

// beginRelease moves a live lease to releasing, once no other release is under way. over means that there is nothing to
// send, and err what Release returns then. repeated means that an earlier attempt had an unknown outcome.
func (l *Life) beginRelease() (repeated, over bool, err error) {
	s := l.leases
	s.mu.Lock()
	for l.ending {
		if l.ended == nil {
			l.ended = make(chan struct{})
		}
		other := l.ended
		s.mu.Unlock()
		<-other // bounded: one release request
		s.mu.Lock()
	}
	call := func() {}
	unsure := false
	switch {
	case l.state == live && l.pastLocked():
		call = l.endLocked(lost)
	case l.state == releasing && s.closed.Load():
		call = l.loseLocked(closed)
	}
	switch l.state {
	case live, releasing:
		repeated = l.state == releasing
		l.state = releasing
		s.removeLocked(l)
		l.ending = true
		s.underway.Add(1) // Close waits for it
		s.mu.Unlock()
		return repeated, false, nil
	case lost:
		unsure, l.unsure = l.unsure && !s.closed.Load(), false
		l.lateRelease = true
		err = backend.ErrLost
	case closed:
		err = backend.ErrClosed
	}
	s.mu.Unlock()
	call()
	if unsure {
		s.releaseOnce(l)
	}
	return false, true, err
}

// endRelease enters the answer to a release.
func (l *Life) endRelease(err error, repeated bool) error {
	s := l.leases
	call := func() {}
	s.mu.Lock()
	l.ending = false
	if l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
	answered := err == nil || errors.Is(err, backend.ErrLost)
	switch {
	case answered && (err == nil || repeated && !l.pastLocked()): // the attempt that went unanswered did it
		l.state = released
		l.onLost = nil
		err = nil
	case answered:
		call = l.loseLocked(lost)
	case s.closed.Load():
		call = l.loseLocked(closed)
		err = backend.ErrClosed
	}
	if l.mayReturn || !answered && l.state == releasing {
		s.cleanUp(l, l.kept-time.Since(l.granted), l.mayReturn)
	}
	s.mu.Unlock()
	s.Leave()
	call()
	return err
}

// LostAfterDeadline returns the result of a release that finds nothing of the lease after an earlier request for it got
// no reply: nil before the deadline, because that request has removed the lease, and [backend.ErrLost] later, because
// the lease may have ended first.
func (l *Life) LostAfterDeadline() error {
	if time.Now().Before(l.Deadline()) {
		return nil
	}
	return backend.ErrLost
}
