package redis

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// redlockRequests are what Leases asks of the nodes.
type redlockRequests struct{ r *Redlock }

var _ backend.Requests = redlockRequests{}

// RenewLease implements [backend.Requests].
func (q redlockRequests) RenewLease(ctx context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	granted, errs := q.r.sendBatch(ctx, []*backend.Life{l}, []time.Duration{ttl})
	return granted[0], errs[0]
}

// ReleaseLease implements [backend.Requests]. It returns when a quorum has answered, and a moment later if the others
// are about to; those that do not answer are seen to in the background.
func (q redlockRequests) ReleaseLease(ctx context.Context, l *backend.Life) error {
	r := q.r
	c, ok := l.Data.(*claim)
	if !ok {
		return errors.New("a lease without a claim")
	}
	c.finish()
	t := r.newTally()
	t.certain = func() bool { return t.won() || t.denied() }
	w := windowFor(c.ttl)
	w.linger = true
	errs := make([]error, len(r.nodes))
	r.ask(context.WithoutCancel(ctx), t, w, func(i int) (verdict, func(bool)) {
		v, err := c.remove(r, i, lastNumber, w.node)
		return v, func(late bool) {
			if !late {
				errs[i] = err
			}
		}
	})
	switch {
	case t.won():
		return nil
	case t.denied():
		return backend.ErrLost
	}
	return r.noQuorum(errs)
}
