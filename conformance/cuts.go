package conformance

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

var cutChecks = []Check{
	{
		Name: "CutInsideAcquire",
		Rule: "rule 4: whatever byte of an attempt a connection breaks at, it is granted, or fails and leaves " +
			"nothing behind",
		Needs: []Need{needsLinked},
		run:   cutInsideAcquire,
	},
	{
		Name: "CutInsideWait",
		Rule: "rules 4 and 9: whatever byte of a waiter's arrival a connection breaks at, it has the key in its " +
			"turn, or fails " +
			"and leaves nothing behind",
		Needs: []Need{needsLinked},
		run:   func(t *trial) { t.cutEverywhere((*cutter).insideWait) },
	},
	{
		Name:  "CutInsideGrant",
		Rule:  "rule 9: whatever byte of a grant to a waiter a connection breaks at, the waiter gets the key",
		Needs: []Need{needsLinked},
		run:   func(t *trial) { t.cutEverywhere((*cutter).insideGrant) },
	},
	{
		Name: "CutInsideRelease",
		Rule: "Lease.Release: whatever byte a connection breaks at, nil means released, ErrLost that the lease had " +
			"ended before, " +
			"and the key becomes free",
		Needs: []Need{needsLinked},
		run:   func(t *trial) { t.cutEverywhere((*cutter).insideRelease) },
	},
	{
		Name: "CutInsideRenew",
		Rule: "Lease.Renew: whatever byte a connection breaks at, the lease lives until its deadline, which is a " +
			"new one only " +
			"if Renew says so",
		Needs: []Need{needsLinked},
		run:   func(t *trial) { t.cutEverywhere((*cutter).insideRenew) },
	},
}

func cutInsideAcquire(t *trial) {
	t.together(2, func(i int) {
		if i == 0 {
			kept := make(chan *grant, max(1, t.h.Many/4))
			t.cutEverywhere(func(x *cutter) { x.insideAcquire(kept) })
			close(kept)
			t.outliveCleanUps(kept)
		} else {
			t.orphanEnds()
		}
	})
}

// outliveCleanUps fails unless leases live on that were granted in spite of a cut. A client that has sent an attempt
// twice may clean up after the first request in the background.
func (t *trial) outliveCleanUps(leases <-chan *grant) {
	const late = 1500 * time.Millisecond // a request may arrive that late
	time.Sleep(late)                     // sleeps: a cleanup may be under way
	for g := range leases {
		if t.kept(g.ttl) < g.ttl && g.gone() && !g.live(time.Now()) {
			continue // the machine was so slow that the lease ended without contact
		}
		t.heldBy(g)
	}
}

// insideAcquire adds some leases that were granted in spite of a cut to kept, and does not release them.
func (x *cutter) insideAcquire(kept chan<- *grant) {
	t, key := x.t, x.t.newKey()
	x.begin()
	g, err := t.request(t.ctx, x.client, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long(),
		Shared: x.shared()})
	x.end()
	if err != nil {
		x.unsure(err, "Acquire of a free key")
		t.becomesFree(t.b, key, recovery, "after an Acquire that failed"+x.where())
		return
	}
	t.keepsDeadline(g, t.long(), g.before, g.after, "Acquire"+x.where())
	if !x.holds(g) {
		return
	}
	if x.hit && !x.bound && !t.mayEndLeases() && !g.shared {
		select {
		case kept <- g:
			return
		default: // the store may be small
		}
	}
	x.releaseUntilFree(g)
}

// orphanEnds checks that a lease that no client knows of ends with its TTL. The client is cut off before it has the
// reply. If an Acquire consists of several requests, an attempt may end without a lease, and is repeated.
func (t *trial) orphanEnds() {
	const (
		attempts = 3
		patience = 500 * time.Millisecond // a client that must connect first never sends the request
	)
	c, link := t.linked()
	for range attempts {
		t.usable(c)
		r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.short()}
		link.Drop(FromStore)
		acquire := t.call(func() error {
			l, err := c.Acquire(t.ctx, r)
			if err == nil {
				_ = l.Release(t.ctx)
			}
			return err
		})
		granted := t.poll(patience, func() bool { return t.inspect(r.Key).Owner == r.Owner })
		if granted {
			link.Refuse()
			t.outlast(t.lastRefusal(time.Now(), r.TTL))
			t.free(t.b, r.Key, "after the TTL of a lease whose client was cut off before it heard of it")
		}
		link.Heal()
		_ = acquire.ends(t, recovery, "Acquire whose client was cut off for a while")
		if granted {
			return
		}
	}
}

func (x *cutter) insideWait() {
	t := x.t
	g := t.acquire(t.a, t.newKey(), t.long())
	x.begin()
	w := t.wait(x.client, g.key, t.long())
	if x.at == nil {
		x.queued(w)
	} else {
		x.cutOr(w, max(t.h.ArrivalDelay, 10*tick))
	}
	x.end()
	time.Sleep(rand.N(tick)) // the release happens at a random step of the recovery
	t.refused(t.b, g)
	t.release(g)
	x.gets(w, false)
}

func (x *cutter) insideGrant() {
	t := x.t
	g := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(x.client, g.key, t.long())
	if !x.queued(w) { // the client has noticed a broken connection only now
		t.release(g)
		return
	}
	x.begin()
	t.release(g)
	x.cutOr(w, soon)
	x.end()
	x.gets(w, true)
}

// queued waits until w is in the store's queue and has the reply. It returns false if w has ended.
func (x *cutter) queued(w *waiting) bool {
	t := x.t
	ok := t.poll(soon, func() bool { return t.inspect(w.key).Waiters != 0 || w.ended() })
	if !ok {
		t.fatalf("Inspect counts no waiter after %v", soon)
	}
	return !t.within(t.h.ArrivalDelay*time.Duration(t.stretch), w.done)
}

// cutOr waits for the cut. It stops when w has ended, because no cut will follow, or after d.
func (x *cutter) cutOr(w *waiting, d time.Duration) {
	x.t.poll(d, func() bool { return x.isCut() || w.ended() })
}

// gets waits until w is granted the free key. If queued is false, w may fail instead: the store may not have replied
// that w waits.
func (x *cutter) gets(w *waiting, queued bool) {
	t := x.t
	if !t.within(recovery+t.g.MaxLate, w.done) {
		t.fatalf("a waiter has not been granted the free key within %v%s", recovery+t.g.MaxLate, x.where())
	}
	switch {
	case w.err == nil:
		if x.holds(w.grant) {
			x.releaseUntilFree(w.grant)
		}
		return
	case queued:
		t.fatalf("an Acquire that waited did not outlive the end of its connection%s: %v", x.where(), w.err)
	}
	x.unsure(w.err, "Acquire that waits")
	t.becomesFree(t.b, w.key, recovery, "after an Acquire that failed"+x.where())
}

func (x *cutter) insideRelease() {
	t := x.t
	g := x.acquire()
	x.begin()
	err := g.Release(t.ctx)
	x.end()
	switch {
	case err == nil:
		t.free(t.b, g.key, "after Release, nil"+x.where())
		if g.gone() {
			t.fatalf("Lost is closed after a Release that succeeded%s", x.where())
		}
	case errors.Is(err, backend.ErrLost) && x.ended(g):
	default:
		x.unsure(err, "Release of a live lease")
		t.becomesFree(t.b, g.key, recovery, "after a Release that failed"+x.where())
	}
	if again := g.Release(t.ctx); errors.Is(again, backend.ErrLost) && !x.ended(g) {
		t.fatalf("second Release of a lease that was released%s: %v", x.where(), again)
	}
}

func (x *cutter) insideRenew() {
	t := x.t
	g := x.acquire()
	old, ttl := g.Deadline(), t.g.Round(2*t.long())
	if x.round%2 == 1 {
		ttl = t.g.Round(t.long() / 4)
	}
	x.begin()
	before := time.Now()
	err := g.Renew(t.ctx, ttl)
	x.end()
	switch {
	case x.bound && (err != nil || g.gone()):
	case err != nil:
		x.unsure(err, "Renew of a live lease")
		if earlier := backend.Deadline(before, ttl); g.Deadline().After(old) && !t.deadlineSlides(g) ||
			g.Deadline().Before(earlier) && g.Deadline().Before(old) {
			t.fatalf("Renew failed%s: the deadline is %v from the old one, and %v from that of the request",
				x.where(), g.Deadline().Sub(old), g.Deadline().Sub(earlier))
		}
	default:
		if d := backend.Deadline(before, t.kept(ttl)); g.Deadline().Before(d) {
			t.fatalf("Renew succeeded%s, and the deadline is %v too early", x.where(), d.Sub(g.Deadline()))
		}
	}
	if x.holds(g) {
		x.releaseUntilFree(g)
	}
}
