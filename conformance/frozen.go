package conformance

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

func frozenHolderLosesKey(t *trial) {
	p := t.process(0)
	waited, tried := t.remoteHold(p, t.key, t.short()), t.remoteHold(p, t.newKey(), t.short())
	p.Freeze()
	w := t.wait(t.b, waited.key, t.long())
	second := t.takesOver(tried, tried.after)
	first := w.granted(t, t.handOff(), "after the TTL of a frozen holder")
	for _, g := range []*grant{first, second} {
		for _, r := range []*remote{waited, tried} {
			if early := r.until().Sub(g.after); r.key == g.key && early > 0 {
				t.doubleGrant("the key of a frozen holder was granted %v before its deadline", early)
			}
		}
	}
	// These requests wait in the frozen process. They are the first work of the process after the thaw.
	stale := make(chan error, 2)
	t.spawn(func() { stale <- p.Renew(t.ctx, waited.owner, t.short()) })
	t.spawn(func() { stale <- p.Release(t.ctx, tried.owner) })
	time.Sleep(tick)
	p.Thaw()
	for range 2 {
		t.isLost(<-stale, "first request of a thawed holder")
	}
	waited.mustBeLost("thawed holder")
	tried.mustBeLost("thawed holder")
	for _, g := range []*grant{first, second} {
		t.describes(g, t.long())
		t.heldBy(g)
		t.release(g)
	}
}

// thawedRenewalRevivesNothing accepts a single Renew that seems to have succeeded. A process may be frozen after the
// end of its Renew but before it reports the result, which looks as if a renewal under way had succeeded. That is rare,
// so a second such Renew is a failure.
func thawedRenewalRevivesNothing(t *trial) {
	for range 2 {
		switch believed := thawedRenewals(t); {
		case believed == 0:
			return
		case believed > 1:
			t.fatalf("%d of 3 Renews under way in frozen processes succeeded, although other owners have the keys", believed)
		}
	}
	t.fatalf("a Renew under way in a frozen process succeeded twice, although another owner has the key")
}

// thawedRenewals freezes processes that renew, and thaws them when others have their keys. It returns how many
// processes then reported that their renewal had succeeded.
func thawedRenewals(t *trial) (believed int) {
	var succeeded atomic.Int32
	t.together(3, func(i int) {
		p := t.process(0)
		delay := []time.Duration{1, t.remoteTypical(p), 2 * time.Millisecond}[i] // not begun, under way, perhaps done
		r := t.remoteHold(p, t.newKey(), t.short())
		renewed := make(chan error, 1)
		var answered time.Time
		t.spawn(func() {
			err := p.Renew(t.ctx, r.owner, t.short())
			answered = time.Now()
			renewed <- err
		})
		time.Sleep(rand.N(delay))
		p.Freeze()
		next := t.takesOver(r, time.Now().Add(t.h.ArrivalDelay)) // a request may still be on its way to the store
		if len(renewed) > 0 {
			if err := <-renewed; errors.Is(err, backend.ErrLost) && answered.After(r.until()) {
				t.tooLate("a lease of another process ended before it was renewed")
			} else if err != nil {
				t.fatalf("Renew of a live lease in another process: %v", err)
			}
			p.Thaw()
		} else {
			p.Thaw()
			if err := <-renewed; err == nil {
				succeeded.Add(1)
			}
		}
		r.mustBeLost("thawed process that had begun to renew")
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
		t.free(t.b, r.key, "after the release that followed a stale renewal")
	})
	return int(succeeded.Load())
}

func frozenInsideAcquire(t *trial) {
	var inHand atomic.Int32
	t.together(3, func(i int) {
		p := t.process(0)
		delay := []time.Duration{1, 1, 2}[i] * t.remoteTypical(p) // under way, or perhaps done
		if i == 0 {
			delay = 1 // perhaps not begun
		}
		r := t.remotely(p, t.newKey(), t.short(), false)
		time.Sleep(rand.N(delay))
		p.Freeze()
		next := t.takesOver(r, time.Now().Add(t.h.ArrivalDelay)) // a request may still be on its way to the store
		before := r.answered(0)
		p.Thaw()
		if !r.answered(recovery) {
			t.fatalf("an attempt that was frozen has not returned %v after its process was thawed", recovery)
		}
		if r.answer.Err == nil {
			if !before && r.claimsLive() {
				t.doubleGrant("an attempt that was frozen was granted the key for another %v, although another owner has it",
					r.answer.Left)
			}
			if !before && r.answer.Left > 0 {
				inHand.Add(1)
			}
			r.mustBeLost("thawed process that had begun an attempt")
		}
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
		t.becomesFree(t.b, r.key, t.g.Round(r.ttl)+t.handOff(), "after an attempt that was frozen")
	})
	t.notef("%d of 3 attempts were frozen with their answer in hand", inHand.Load())
}

func frozenWaiterDelaysNextBriefly(t *trial) {
	p := t.process(0)
	g := t.acquire(t.a, t.key, t.long())
	frozen := t.remoteWait(p, t.key, t.short(), 1)
	w := t.wait(t.b, t.key, t.long())
	t.confirmQueued(t.key, 2)
	p.Freeze()
	t.release(g)
	next := w.granted(t, t.g.Round(t.short())+t.handOff(),
		"after release, with a waiter before it whose process is frozen")
	p.Thaw()
	if frozen.answered(t.h.ArrivalDelay*time.Duration(t.stretch)) && frozen.claimsLive() {
		t.doubleGrant("a thawed waiter was granted the key for another %v, which has passed on to the next",
			frozen.answer.Left)
	}
	t.heldBy(next)
	t.release(next)
	frozen.finishes(next)
}

func frozenWaitersDelayNextBriefly(t *trial) {
	const processes, each, behind = 3, 2, 3
	g := t.acquire(t.a, t.key, t.long())
	var frozen []*remote
	for range processes {
		p := t.process(0)
		for range each {
			frozen = append(frozen, t.remoteWait(p, t.key, t.short(), len(frozen)+1))
		}
	}
	var waits []*waiting
	for i := range behind {
		waits = append(waits, t.wait(t.client(i), t.key, t.long()))
		t.arrived(t.key, len(frozen)+i+1)
	}
	t.confirmQueued(t.key, len(frozen)+behind)
	for i := 0; i < len(frozen); i += each {
		frozen[i].process.Freeze()
	}
	t.release(g)
	bound := time.Duration(len(frozen))*(t.g.Round(t.short())+t.g.MaxLate) + soon
	next := t.inTurn(waits, bound, "after release, with waiters before it whose processes are frozen")
	for i := 0; i < len(frozen); i += each {
		frozen[i].process.Thaw()
	}
	for _, r := range frozen {
		if r.answered(t.h.ArrivalDelay*time.Duration(t.stretch)) && r.claimsLive() {
			t.doubleGrant("a thawed waiter was granted the key for another %v, which has passed on to the next", r.answer.Left)
		}
	}
	t.heldBy(next)
	t.release(next)
	for _, r := range frozen {
		r.finishes(next)
	}
}

// finishes fails unless the thawed waiter r is granted the free key after g, or fails because its turn is over.
func (r *remote) finishes(g *grant) {
	t := r.t
	if !r.answered(recovery + t.g.MaxLate) {
		t.fatalf("a thawed waiter is still parked on a free key after %v", recovery+t.g.MaxLate)
	}
	switch err := r.answer.Err; {
	case errors.Is(err, backend.ErrLost): // granted while it was frozen
	case errors.Is(err, backend.ErrUnavailable): // frozen before it read that the key is busy
		t.provesNothing("a waiter that may have been frozen before the first answer: %v", err)
	case err != nil:
		t.fatalf("a thawed waiter: %v, want the lease, or ErrLost for one that is over", err)
	case r.answer.Token <= g.Token() && t.g.Fencing > backend.FencingNone:
		t.fatalf("a thawed waiter was granted token %d after token %d", r.answer.Token, g.Token())
	case r.answer.Left > 0:
		_ = r.process.Release(t.ctx, r.owner)
	}
	t.becomesFree(t.b, r.key, t.g.Round(r.ttl)+t.handOff(), "after a waiter that had been frozen")
}

func thawedWaiterGetsTurn(t *trial) {
	p := t.process(0)
	g := t.acquire(t.a, t.key, t.long())
	r := t.remoteWait(p, t.key, t.short(), 1)
	p.Freeze()
	time.Sleep(t.g.Round(t.short()) + t.g.MaxLate + t.short()/4)
	p.Thaw()
	if rand.N(2) == 0 {
		time.Sleep(t.h.ArrivalDelay)
	}
	t.refused(t.b, g)
	if r.answered(0) {
		t.fatalf("an Acquire that waits in a thawed process ended while the key was held: %+v", r.answer)
	}
	t.release(g)
	r.granted(recovery+t.g.MaxLate, "after release, to a waiter that had been frozen")
	if r.answer.Token <= g.Token() && t.g.Fencing > backend.FencingNone {
		t.fatalf("a thawed waiter was granted token %d after token %d", r.answer.Token, g.Token())
	}
	r.release()
	t.free(t.b, t.key, "after the release of a waiter that had been frozen")
}
