package kit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// errUnanswered is the error of a renewal for which a batch returned no result. Its outcome is unknown.
var errUnanswered = errors.New("no answer to this renewal")

// RenewBatch implements BatchRenewer for a store. It skips the leases that have ended or are already being renewed,
// calls send once with the others, and records the results. send gets each TTL as rounded by Guarantees.Round. It
// returns a granted TTL and an error for each lease, in order, with the same meaning as in Requests.RenewLease. Its ctx
// ends when the last deadline of these leases has passed.
func (s *Leases) RenewBatch(ctx context.Context, renewals []backend.Renewal,
	send func(ctx context.Context, lives []*Life, ttls []time.Duration) (granted []time.Duration, errs []error),
) []error {
	n := len(renewals)
	errs := make([]error, n)
	lives, ttls, index := make([]*Life, 0, n), make([]time.Duration, 0, n), make([]int, 0, n)
	var last time.Time
	guarantees := s.requests.Guarantees()
	sent, ended := time.Now(), ContextError(ctx, nil)
	s.inParts(n, func(i int, now time.Time, then *afterwards) {
		l, ok := renewals[i].Lease.(*Life)
		if !ok || l.leases != s {
			errs[i] = fmt.Errorf("%w: lease of another backend", backend.ErrInvalid)
			return
		}
		ttl := renewals[i].TTL
		if errs[i] = guarantees.ValidateTTL(ttl); errs[i] != nil {
			return
		}
		ttl = guarantees.Round(ttl)
		if l.renewing && l.state == live {
			errs[i] = l.waitingLocked(now)
			return
		}
		bound, err := l.beginRenewLocked(ended, ttl, sent, then)
		if errs[i] = err; err != nil {
			return
		}
		lives, ttls, index = append(lives, l), append(ttls, ttl), append(index, i)
		if bound.After(last) {
			last = bound
		}
	})
	if len(lives) == 0 {
		return errs
	}
	sctx, cancel := context.WithDeadline(ctx, last)
	stop := context.AfterFunc(s.base, cancel) // Close ends the request
	granted, sendErrs := send(sctx, lives, ttls)
	stop()
	cancel()
	s.inParts(len(lives), func(k int, now time.Time, then *afterwards) {
		l, u := lives[k], renewalAttempt{ttl: ttls[k], sent: sent}
		var ttl time.Duration
		err := errUnanswered
		if k < len(sendErrs) {
			err = sendErrs[k]
		}
		if k < len(granted) {
			ttl = granted[k]
		}
		over := l.endRenewLocked(u, ttl, err, now, then)
		errs[index[k]] = renewError(ctx, over, err)
	})
	return errs
}

// inParts calls f with each i from 0 to n-1 and the current time, under the lock. It releases the lock after each part,
// so that other goroutines do not wait for long. At the end, without the lock, it runs what f has added to then. It
// reads the time under the lock, so that no earlier holder of the lock can have ended a lease at a later time.
func (s *Leases) inParts(n int, f func(i int, now time.Time, then *afterwards)) {
	const part = 64
	var then afterwards
	for i := 0; i < n; {
		s.mu.Lock()
		now := time.Now()
		for end := min(n, i+part); i < end; i++ {
			f(i, now, &then)
		}
		s.mu.Unlock()
	}
	then.run(s)
}
