package backend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errUnanswered is the unknown outcome of a renewal for which a batch brought no answer.
var errUnanswered = errors.New("no answer to this renewal")

// RenewBatch does the work of BatchRenewer for a store: it drops the leases that are over, calls send once with the rest,
// and enters the answers. send returns a granted TTL and an error for each lease, in order, with the meaning of
// Requests.RenewLease; ctx ends when the last of their deadlines has passed.
func (s *Leases) RenewBatch(ctx context.Context, renewals []Renewal,
	send func(ctx context.Context, lives []*Life, ttls []time.Duration) (granted []time.Duration, errs []error),
) []error {
	errs := make([]error, len(renewals))
	var (
		lives []*Life
		ttls  []time.Duration
		begun []renewalUnderway
		index []int
		last  time.Time
	)
	for i, r := range renewals {
		l, ok := r.Lease.(*Life)
		if !ok || l.leases != s {
			errs[i] = fmt.Errorf("%w: lease of another backend", ErrInvalid)
			continue
		}
		if errs[i] = ValidateTTL(r.TTL); errs[i] != nil {
			continue
		}
		b, err := l.beginRenew(ctx, r.TTL, false)
		if errs[i] = err; err != nil {
			continue
		}
		lives, ttls, begun, index = append(lives, l), append(ttls, r.TTL), append(begun, b), append(index, i)
		if b.bound.After(last) {
			last = b.bound
		}
	}
	if len(lives) == 0 {
		return errs
	}
	sctx, cancel := context.WithDeadline(ctx, last)
	stop := context.AfterFunc(s.base, cancel) // Close
	granted, sendErrs := send(sctx, lives, ttls)
	stop()
	cancel()
	var strays []*Life
	for k, l := range lives {
		var ttl time.Duration
		err := errUnanswered
		if k < len(sendErrs) {
			err = sendErrs[k]
		}
		if k < len(granted) {
			ttl = granted[k]
		}
		err, stray := l.endRenew(ctx, begun[k], ttl, err)
		if errs[index[k]] = err; stray {
			strays = append(strays, l)
		}
	}
	s.giveBack(strays...)
	return errs
}
