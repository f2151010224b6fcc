package lock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// handoffTime is how long after the store's grant a lease may be handed on. It is limited because other processes wait
// meanwhile.
const handoffTime = time.Second

// handoffTrust is how long after a reply of the store a lease may be handed on without a request, if the store does not
// report that somebody has removed the lease.
const handoffTrust = 10 * time.Millisecond

// keepPause is the pause between attempts to set a minimum hold.
const keepPause = 100 * time.Millisecond

// handOnOrRelease hands the lease to the next local waiter. If that is not possible, it releases the lease and lets the
// next waiter contend. The error is the release's.
func (t *tenure) handOnOrRelease(ctx context.Context) error {
	if t.handOn() {
		return nil
	}
	t.stop()
	defer t.locker.leave(t.gate, nil)
	return t.lease.Release(ctx)
}

// handOn hands a live lease to the next local waiter, and reports whether it did. It does not if nobody waits, or if
// the store should decide who is next.
func (t *tenure) handOn() bool {
	l := t.locker
	l.mu.Lock()
	waiter := l.nextLocked(t.gate)
	l.mu.Unlock()
	if waiter == nil || waiter.terms.owner != "" ||
		int(t.handoffs) >= l.defaults.handoff || t.age() >= handoffTime {
		return false
	}
	l.renewals.remove(t)
	if t.renewals.Load() > 0 {
		return false // a request on this holder's terms may reach the store after a request on the next holder's terms
	}
	// The next holder gets the TTL that it requested, in full if nobody will renew the lease.
	ttl := waiter.terms.leaseTTL()
	unsure := !l.guarantees.ReportsLoss && t.age()-t.confirmedAge > handoffTrust
	if unsure || ttl != t.ttl || waiter.terms.noRenewal || time.Until(t.lease.Deadline()) < l.timeToDeadline(ttl)/2 {
		ctx, cancel := context.WithDeadline(context.Background(), t.granted.Add(handoffTime))
		defer cancel()
		if err := t.lease.Renew(ctx, ttl); err != nil {
			return false
		}
		t.ttl, t.confirmedAge = ttl, t.age()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nextLocked(t.gate) != waiter {
		return false // another waiter is next, perhaps with other terms
	}
	next := t.successor()
	t.mu.Lock()
	ended := t.phase == lost
	t.next = next
	t.mu.Unlock()
	if ended {
		return false
	}
	t.gate.inside.Store(nil)
	l.callNextLocked(t.gate, next)
	return true
}

// keepForMinHold keeps the key taken for at least d more, and lets the next local waiter queue at the store.
func (t *tenure) keepForMinHold(ctx context.Context, d time.Duration) error {
	l := t.locker
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoffTime)
	defer cancel()
	l.renewals.remove(t)
	// The deadline must be at least d away, because some stores free the key then, a margin before the end of the TTL. If
	// the store grants no such TTL, request the longest that it grants.
	ttl := d + backend.Margin(0)
	ttl = min(ttl+ttl/99+1, cmp.Or(l.guarantees.MaxTTL, backend.MaxTTL))
	var err error
	kept := false
	for again := true; again; {
		overlaps := t.renewals.Load() > 0 // a renewal to another TTL may reach the store after this request
		err = t.lease.Renew(ctx, ttl)
		kept = kept || err == nil
		again = (err == nil && overlaps || isUnknown(err)) && kit.Sleep(ctx, keepPause) == nil
	}
	t.stop()
	l.leave(t.gate, nil)
	switch {
	case kept && errors.Is(err, ErrLost): // the minimum hold has passed
		return nil
	case isLoss(err):
		return err
	case err != nil:
		t.warn("min hold: outcome unknown, the key may stay taken for its ttl", "error", err)
	}
	return nil
}
