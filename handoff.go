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

// giveUp hands the lease to the next local waiter. If that is not possible, it releases the lease and lets the next
// waiter contend. If keep is positive, giveUp neither hands on nor releases the lease, but sets it to end after keep.
func (t *tenure) giveUp(ctx context.Context, keep time.Duration) error {
	t.locker.renewals.remove(t)
	handedOn := false
	defer func() {
		if !handedOn { // also if the store panics
			t.stop()
			t.locker.leave(t.gate, nil)
		}
	}()
	if keep > 0 {
		return t.keepForMinHold(ctx, keep)
	}
	if handedOn = t.handOn(); handedOn {
		return nil
	}
	return t.lease.Release(ctx)
}

// handOn hands a live lease to the next local waiter, and reports whether it did. It does not if nobody waits, or if
// the store should decide who is next.
func (t *tenure) handOn() bool {
	l := t.locker
	l.mu.Lock()
	waiter := l.nextLocked(t.gate)
	l.mu.Unlock()
	// A renewal on this holder's terms may reach the store after one on the next holder's terms.
	overlaps := t.pendingRenewals.Load() > 0
	if waiter == nil || waiter.terms.owner != "" || overlaps ||
		int(t.handoffs) >= l.defaults.handoff || t.age() >= handoffTime {
		return false
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

// keepForMinHold keeps the key taken for at least d more. An error that is not a loss means that the outcome is
// unknown.
func (t *tenure) keepForMinHold(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoffTime)
	defer cancel()
	// The deadline must be at least d away, because some stores free the key then, a margin before the end of the TTL. If
	// the store grants no such TTL, request the longest that it grants.
	ttl := d + backend.Margin(0)
	ttl = min(ttl+ttl/99+1, cmp.Or(t.locker.guarantees.MaxTTL, backend.MaxTTL))
	var err error
	kept := false
	for again := true; again; {
		overlaps := t.pendingRenewals.Load() > 0 // a renewal to another TTL may reach the store after this request
		err = t.lease.Renew(ctx, ttl)
		kept = kept || err == nil
		again = (err == nil && overlaps || isUnknown(err)) && kit.Sleep(ctx, keepPause) == nil
	}
	if kept && errors.Is(err, ErrLost) { // the minimum hold has passed
		return nil
	}
	return err
}
