package conformance

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var ownershipChecks = []Check{
	{
		Name: "StaleReleaseSparesNewHolder",
		Rule: "rule 5: Release by a lease that has expired is ErrLost and does not touch the new holder",
		run:  staleReleaseSparesNewHolder,
	},
	{
		Name: "StaleRenewSparesNewHolder",
		Rule: "rule 5: Renew by a lease that has expired is ErrLost and does not touch the new holder",
		run:  staleRenewSparesNewHolder,
	},
	{
		Name: "ReleasedLeaseSparesNewHolder",
		Rule: "rule 5: a lease that was released does not touch the next holder, not even one of the same client",
		run:  releasedLeaseSparesNewHolder,
	},
	{
		Name: "ReleaseTwice",
		Rule: "Lease.Release: nil means released, also on a second call and on calls made at once",
		run:  releaseTwice,
	},
	{
		Name: "ReleaseAfterExpiry",
		Rule: "Lease.Release: ErrLost means that the lease had ended before",
		run:  releaseAfterExpiry,
	},
	{
		Name: "LeasesOfOneClientAreSeparate",
		Rule: "rules 1 and 3: two leases of one client live and end on their own",
		run:  leasesOfOneClientAreSeparate,
	},
	{
		Name: "WaiterCleanUpSparesHolder",
		Rule: "rules 4 and 5: cleaning up after a waiter that was cancelled removes what is its own, never the " +
			"holder's lease",
		run: waiterCleanUpSparesHolder,
	},
	{
		Name: "RefusedCleanUpSparesHolder",
		Rule: "rules 4 and 5: cleaning up after an attempt whose context ended never removes the holder's lease",
		run:  refusedCleanUpSparesHolder,
	},
}

// isLost fails unless err is ErrLost.
func (t *trial) isLost(err error, what string) {
	if !errors.Is(err, backend.ErrLost) {
		t.fatalf("%s: %v, want ErrLost", what, err)
	}
}

// wantLost makes a request to the store, which must reply ErrLost.
func (t *trial) wantLost(what string, request func() error) {
	begun := time.Now()
	err := request()
	t.lateOnTimeout(err, begun)
	t.isLost(err, what)
}

// succeedStale returns an expired lease of client a and the lease of the key's new holder, client b.
func (t *trial) succeedStale() (stale, fresh *grant) {
	stale = t.acquire(t.a, t.key, t.short())
	t.expire(stale)
	return stale, t.acquire(t.b, t.key, t.long())
}

func staleReleaseSparesNewHolder(t *trial) {
	stale, fresh := t.succeedStale()
	t.isLost(stale.Release(t.ctx), "Release of an expired lease")
	t.heldBy(fresh)
	t.isLost(stale.Release(t.ctx), "second Release of an expired lease")
	t.refusedFor(t.a, fresh, t.short())
	t.describes(fresh, t.long())
	t.renew(fresh, t.long())
	t.release(fresh)
	t.staleSparesLoss()
}

// staleSparesLoss makes requests by an expired lease when its client has the next lease of the key. Lost of that lease
// must still close in time.
func (t *trial) staleSparesLoss() {
	stale := t.acquire(t.a, t.newKey(), t.short())
	t.expire(stale)
	next := t.acquire(t.a, stale.key, 2*t.short())
	t.isLost(stale.Renew(t.ctx, t.long()), "Renew of an expired lease")
	t.isLost(stale.Release(t.ctx), "Release of an expired lease")
	t.losesOnTime(next)
}

func staleRenewSparesNewHolder(t *trial) {
	stale, fresh := t.succeedStale()
	for _, ttl := range []time.Duration{t.short(), 2 * t.long()} {
		t.isLost(stale.Renew(t.ctx, ttl), "Renew of an expired lease")
		t.describes(fresh, t.long())
	}
	t.refusedFor(t.a, fresh, 2*t.short())
	t.heldBy(fresh)
	t.renew(fresh, t.long())
	t.release(fresh)
}

func releasedLeaseSparesNewHolder(t *trial) {
	for _, client := range []backend.Backend{t.a, t.b} {
		old := t.acquire(t.a, t.key, t.long())
		t.release(old)
		fresh := t.acquire(client, t.key, t.long())
		if err := old.Release(t.ctx); err != nil {
			t.fatalf("second Release: %v, want nil", err)
		}
		for _, way := range t.renewals() {
			t.isLost(way.renew(t.ctx, old, t.short()), way.what+" of a released lease")
		}
		t.describes(fresh, t.long())
		t.heldBy(fresh)
		t.renew(fresh, t.long())
		t.release(fresh)
	}
}

func releaseTwice(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	t.together(8, func(int) {
		begun := time.Now()
		err := g.Release(t.ctx)
		t.lateOnTimeout(err, begun)
		if err != nil {
			t.fatalf("one of several Releases: %v, want nil", err)
		}
	})
	if err := g.Release(t.ctx); err != nil {
		t.fatalf("Release after Release: %v, want nil", err)
	}
	t.free(t.b, t.key, "after release")
	t.releasesOfOneTurn()
}

// releasesOfOneTurn makes several Releases of a lease at once while others wait. The key goes to one of them.
func (t *trial) releasesOfOneTurn() {
	g := t.acquire(t.a, t.newKey(), t.long())
	waits := t.queue(g, 3)
	t.together(4, func(int) { t.release(g) })
	next, waits := t.next(waits, t.handOff(), "after several Releases at once")
	time.Sleep(2 * tick) // another grant may follow
	for _, w := range waits {
		w.stillWaits(t, next, t.rule)
	}
	t.heldBy(next)
	for len(waits) > 0 {
		t.release(next)
		next, waits = t.next(waits, t.handOff(), "after release")
	}
	t.release(next)
}

func releaseAfterExpiry(t *trial) {
	g := t.acquire(t.a, t.key, t.short())
	t.expire(g)
	t.isLost(g.Release(t.ctx), "Release of an expired lease")
	t.isLost(g.Release(t.ctx), "second Release of an expired lease")
	t.free(t.b, t.key, "after expiry")
}

func leasesOfOneClientAreSeparate(t *trial) {
	one := t.acquire(t.a, t.key, t.long())
	two := t.acquire(t.a, t.newKey(), t.long())
	brief := t.acquire(t.a, t.newKey(), t.short())
	if one.Lost() == two.Lost() {
		t.fatalf("two leases have the same Lost channel")
	}
	deadline := two.Deadline()
	t.renew(one, 2*t.long())
	if !t.sameDeadline(two, deadline) {
		t.fatalf("renewing one lease moved the deadline of another")
	}
	t.release(one)
	t.heldBy(two)
	t.expire(brief)
	t.heldBy(two)
	t.free(t.b, one.key, "after release")
	t.free(t.b, brief.key, "after the expiry of a lease whose client has renewed another")
	t.renew(two, t.long())
	t.release(two)
}

func waiterCleanUpSparesHolder(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	for _, client := range []backend.Backend{t.a, t.b, t.b} {
		w := t.wait(client, t.key, t.long())
		t.arrived(t.key, 1)
		w.cancelAndFail(t)
	}
	// Cleanup runs in the background and is retried.
	t.refusedFor(t.b, g, time.Second)
	t.heldBy(g)
	t.describes(g, t.long())
	t.renew(g, t.long())
	t.release(g)
	t.becomesFree(t.b, t.key, t.handOff(), "after release, with cancelled waiters before")
}
