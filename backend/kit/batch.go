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
	return s.renew(ctx, renewals, nil, send)
}

// renew implements RenewBatch and Life.Renew. If waits is not nil, renew first waits for a renewal of that lease.
func (s *Leases) renew(ctx context.Context, renewals []backend.Renewal, waits *Life,
	send func(ctx context.Context, lives []*Life, ttls []time.Duration) (granted []time.Duration, errs []error),
) []error {
	n := len(renewals)
	errs := make([]error, n)
	lives, ttls, index := make([]*Life, 0, n), make([]time.Duration, 0, n), make([]int, 0, n)
	var last time.Time
	guarantees := s.requests.Guarantees()
	s.mu.Lock()
	if waits != nil {
		waits.awaitRenewalLocked(ctx)
	}
	ended := ContextError(ctx, nil)
	sent := time.Now()
	for i, r := range renewals {
		l, ok := r.Lease.(*Life)
		if !ok || l.leases != s {
			errs[i] = fmt.Errorf("%w: lease of another backend", backend.ErrInvalid)
			continue
		}
		if errs[i] = guarantees.ValidateTTL(r.TTL); errs[i] != nil {
			continue
		}
		ttl := guarantees.Round(r.TTL)
		bound, err := l.beginRenewLocked(ended, ttl, sent)
		if errs[i] = err; err != nil {
			continue
		}
		lives, ttls, index = append(lives, l), append(ttls, ttl), append(index, i)
		if bound.After(last) {
			last = bound
		}
	}
	if len(lives) == 0 {
		s.unlock()
		return errs
	}
	s.underway.Add(1) // Close waits for it
	s.unlock()
	sctx, cancel := context.WithDeadline(ctx, last)
	stop := context.AfterFunc(s.closing, cancel) // Close ends the request
	granted, sendErrs := send(sctx, lives, ttls)
	stop()
	cancel()
	s.mu.Lock()
	now := time.Now() // under the lock, so that no earlier holder of the lock can have ended a lease at a later time
	for k, l := range lives {
		var ttl time.Duration
		err := errUnanswered
		if k < len(sendErrs) {
			err = sendErrs[k]
		}
		if k < len(granted) {
			ttl = granted[k]
		}
		endErr := l.endRenewLocked(ttls[k], ttl, err, now)
		errs[index[k]] = renewError(ctx, endErr, err)
	}
	s.Leave() // before the callbacks of unlock, which may call Close
	s.unlock()
	return errs
}
