package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// redlockRequests are what Leases asks of the nodes.
type requests struct{ r *Backend }

var _ backend.Requests = requests{}

// Guarantees implements [backend.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.r.guarantees }

// RenewLease implements [backend.Requests].
func (q requests) RenewLease(ctx context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	granted, errs := q.r.sendBatch(ctx, []*backend.Life{l}, []time.Duration{ttl})
	return granted[0], errs[0]
}

// ReleaseLease implements [backend.Requests]. It returns when a quorum of the nodes is free of the lease, and a moment later
// if the others are about to answer; those that do not are seen to in the background.
func (q requests) ReleaseLease(ctx context.Context, l *backend.Life) error {
	r := q.r
	c, ok := l.Data.(*claim)
	if !ok {
		return errors.New("a lease without a claim")
	}
	t := r.newTally()
	var said [unknown + 1]int
	// A quorum cannot have had it: it was lost before.
	lost := func() bool { return t.n-said[never]-said[absent] < t.quorum }
	free := func() bool { return said[removed]+said[never] >= t.quorum }
	t.certain = func() bool { return lost() || free() }
	w := r.windowFor(c.ttl)
	w.linger = true
	r.removeAll(context.WithoutCancel(ctx), t, c, w, func(what removal) { said[what]++ })
	switch {
	case lost():
		return backend.ErrLost
	case free(), said[removed]+said[never]+said[absent] >= t.quorum:
		// In the second case nodes do not answer that decide whether the lease had been lost; the key is free in any case.
		return nil
	}
	return r.noQuorum(t.silent())
}
