package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// Renew implements Lease. It waits until no other renewal of the lease is under way.
func (l *Life) Renew(ctx context.Context, ttl time.Duration) error {
	send := func(ctx context.Context, _ []*Life, ttls []time.Duration) ([]time.Duration, []error) {
		granted, err := l.leases.requests.RenewLease(ctx, l, ttls[0])
		return []time.Duration{granted}, []error{err}
	}
	return l.leases.renew(ctx, []backend.Renewal{{Lease: l, TTL: ttl}}, l, send)[0]
}

// awaitRenewalLocked waits until no renewal of l is under way, l has ended or ctx has. Meanwhile it unlocks.
func (l *Life) awaitRenewalLocked(ctx context.Context) {
	if !l.renewing {
		return
	}
	s := l.leases
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})()
	for l.state == live && l.renewing && ctx.Err() == nil {
		s.changed.Wait()
	}
}

// beginRenewLocked begins a renewal that is sent at now. It fails if the lease is over, or with ended if that is not
// nil. It also fails while another renewal is under way, because the outcome is then unknown. bound is the deadline of
// the lease when the request is sent: a reply after bound does not count.
func (l *Life) beginRenewLocked(ended error, ttl time.Duration, now time.Time) (bound time.Time, err error) {
	bound = l.deadlineEntry.At()
	l.expireLocked(now)
	if err := cmp.Or(l.endErrLocked(), ended); err != nil {
		return bound, err
	}
	if l.renewing {
		silence := now.Sub(l.granted) - l.renewSent
		return bound, fmt.Errorf("%w: no answer for %v to the previous renewal", backend.ErrUnavailable,
			silence.Round(time.Millisecond))
	}
	// The store may shorten the lease even if its reply never arrives.
	if d := backend.Deadline(now, ttl); d.Before(bound) {
		l.setDeadlineLocked(d)
	}
	l.renewing, l.renewSent = true, now.Sub(l.granted)
	return bound, nil
}

// NoteUnanswered records that an attempt to renew the lease to ttl got no reply, so that it may still reach the store.
// RenewLease calls it if a later attempt of its own was answered.
func (l *Life) NoteUnanswered(ttl time.Duration) {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	l.unansweredTTL = l.shortestTTLLocked(ttl)
}

// shortestTTLLocked returns ttl, or the shortest TTL of the unanswered renewals if that is shorter.
func (l *Life) shortestTTLLocked(ttl time.Duration) time.Duration {
	return min(ttl, cmp.Or(l.unansweredTTL, ttl))
}

// endRenewLocked records the answer to a renewal to ttl. endErr is the error of a lease that is no longer live, or nil.
func (l *Life) endRenewLocked(ttl, granted time.Duration, err error, now time.Time) (endErr error) {
	l.renewing = false
	l.leases.changed.Broadcast()
	l.latestExpiry = max(l.latestExpiry, now.Sub(l.granted)+max(ttl, granted))
	l.expireLocked(now) // even an answered renewal never revives a lease
	switch {
	case errors.Is(err, backend.ErrLost):
		l.unansweredTTL = 0
		l.endLocked(lost)
	case err == nil && l.state == live:
		l.setDeadlineLocked(backend.Deadline(l.granted.Add(l.renewSent), l.shortestTTLLocked(granted)))
	default:
		// The store may have extended a lease that is over. Only its holder may end it there: since the loss, another
		// process may have resumed it.
		l.unansweredTTL = l.shortestTTLLocked(ttl)
		if l.state == lost && l.lateRelease {
			l.leases.cleanUp(l, 0, false) // 0: no longer than the timeout, because a process may resume the lease later
		}
	}
	return l.endErrLocked()
}

// renewError returns the error of a renewal. err is the error of its request. endErr is not nil if the lease is over.
func renewError(ctx context.Context, endErr, err error) error {
	switch err = NotOurs(ctx, err); {
	case endErr != nil && err != nil && !errors.Is(err, backend.ErrLost):
		return fmt.Errorf("%w (last error: %w)", endErr, err)
	case endErr != nil:
		return endErr
	case err == nil:
		return nil
	}
	return cmp.Or(ContextError(ctx, err), err)
}
