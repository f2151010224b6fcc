package conformance

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var clockStepChecks = []Check{
	{
		Name: "SteppedClockEndsNoLease",
		Rule: "rules 1 and 9: a step of the store's wall clock ends no live lease and parks no waiter; where that " +
			"clock ends leases " +
			"(Guarantees.EnforcedBy), a step forward may, if EarlyLoss says so, and the holder's next " +
			"renewal fails with ErrLost",
		Needs: []Need{needsStepClock},
		alone: true,
		run:   steppedClockEndsNoLease,
	},
	{
		Name: "SteppedClockKeepsNoDeadHolder",
		Rule: "rule 3: the key of a dead holder is free by the granted TTL plus MaxLate, and not sooner, however the " +
			"store's wall clock is " +
			"stepped; where that clock ends leases (Guarantees.EnforcedBy), by as much later as it was stepped back",
		Needs: []Need{needsStepClock},
		alone: true,
		run:   steppedClockKeepsNoDeadHolder,
	},
	{
		Name:  "SteppedClockKeepsTokenOrder",
		Rule:  "rule 7: tokens strictly increase per key, even if the store's wall clock is stepped back",
		Needs: []Need{needsStepClock, needsTokens},
		alone: true,
		run:   steppedClockKeepsTokenOrder,
	},
}

// farStep is the usual step of the store's clock. It is longer than the TTL of a lease that must survive the step.
const farStep = 30 * time.Second

// steps steps the store's clock by d. It is stepped back when back is called or the trial ends.
func (t *trial) steps(d time.Duration) (back func()) {
	back = sync.OnceFunc(func() { t.h.StepClock(-d) })
	t.endsFault(back)
	t.h.StepClock(d)
	return back
}

// byWallClock reports whether Guarantees state that a wall clock ends leases.
func (t *trial) byWallClock() bool { return strings.Contains(t.g.EnforcedBy, "wall clock") }

// endsEarlyByClock reports whether EarlyLoss states that a step forward may end live leases.
func (t *trial) endsEarlyByClock() bool {
	return t.byWallClock() && strings.Contains(t.g.EarlyLoss, "clock")
}

func steppedClockEndsNoLease(t *trial) {
	ttl := t.g.Round(min(t.long(), max(farStep/3, 4*t.g.MinTTL)))
	step := max(farStep, (3 * ttl).Truncate(time.Second))
	for _, by := range []time.Duration{step, -step} {
		mayEnd := by > 0 && t.endsEarlyByClock()
		held, waitedFor := []*grant{t.acquire(t.a, t.newKey(), ttl)}, t.acquire(t.a, t.newKey(), ttl)
		if t.g.Shared {
			held = append(held, t.read(t.a, t.newKey(), ttl))
		}
		w := t.wait(t.b, waitedFor.key, ttl)
		t.confirmQueued(waitedFor.key, 1)
		back := t.steps(by)
		for _, g := range held {
			if !t.endedByStep(g, by, mayEnd) {
				t.release(g)
			}
			t.free(t.b, g.key, "after a step of the store's clock")
		}
		if !mayEnd {
			t.release(waitedFor)
		} else if err := waitedFor.Release(t.ctx); err != nil && !errors.Is(err, backend.ErrLost) {
			t.fatalf("Release of a lease that a step of the store's clock may have ended: %v", err)
		}
		next := w.granted(t, t.handOff(), "after the release, and a step of the store's clock")
		if !mayEnd || next.live(time.Now()) && next.Renew(t.ctx, ttl) == nil {
			t.heldBy(next)
			t.release(next)
		}
		back()
	}
}

// endedByStep reports whether a step of the store's clock has ended g. It fails the check if the step ended g although
// mayEnd is false.
func (t *trial) endedByStep(g *grant, by time.Duration, mayEnd bool) bool {
	next, err := t.attempt(t.b, g.key, t.long())
	switch {
	case err != nil && !errors.Is(err, backend.ErrHeld):
		t.fatalf("Acquire of a held key after the store's clock was stepped by %v: %v, want ErrHeld", by, err)
	case err == nil && !g.live(next.after):
		t.tooLate("the holder's lease ended before a second owner was refused")
	case err == nil && !mayEnd:
		t.doubleGrant("a step of the store's clock by %v let a second owner in %v before the holder's deadline; EnforcedBy "+
			"is %q, EarlyLoss %q",
			by, time.Until(g.Deadline()), t.g.EnforcedBy, t.g.EarlyLoss)
	case err == nil:
		t.wantLost("Renew of a lease that a step of the store's clock has ended", func() error {
			return g.Renew(t.ctx, t.long())
		})
		if !t.within(soon, g.Lost()) {
			t.breaks(6, "Lost is open after Renew was ErrLost")
		}
		t.heldBy(next)
		t.release(next)
		return true
	}
	deadline := g.Deadline()
	err = g.Renew(t.ctx, g.ttl)
	switch {
	case err == nil && g.shared:
		t.readersKeepOut([]*grant{g}, "after a step of the store's clock")
		return false
	case err == nil:
		t.heldBy(g)
		return false
	case mayEnd && errors.Is(err, backend.ErrLost):
		return true
	case !time.Now().Before(deadline):
		t.tooLate("a lease ended before it was renewed")
	}
	t.fatalf("Renew of a live lease after the store's clock was stepped by %v: %v; EnforcedBy is %q", by, err,
		t.g.EnforcedBy)
	return false
}

func steppedClockKeepsNoDeadHolder(t *trial) {
	steps := []time.Duration{-farStep, farStep}
	if t.shortMode {
		steps = steps[:1]
	}
	for _, by := range steps {
		early, late := by > 0 && t.endsEarlyByClock(), time.Duration(0)
		if by < 0 && t.byWallClock() {
			late = farStep / 10
			by = -late
		}
		ttl := t.awaited()
		tried, waitedFor := []*grant{t.acquire(t.a, t.newKey(), ttl)}, t.acquire(t.a, t.newKey(), ttl)
		if t.g.Shared {
			tried = append(tried, t.read(t.a, t.newKey(), ttl))
		}
		w := t.wait(t.b, waitedFor.key, t.long())
		t.arrived(waitedFor.key, 1)
		back := t.steps(by)
		next := w.granted(t, ttl+late+t.handOff(), "after the end of a dead holder's lease, and a step of the store's clock")
		if left := waitedFor.Deadline().Sub(next.after); left > 0 && !early {
			t.doubleGrant("a step of the store's clock by %v let a waiter in %v before the holder's deadline; EnforcedBy is %q",
				by, left, t.g.EnforcedBy)
		}
		ends := []*grant{next}
		for _, dead := range tried {
			t.outlast(t.lastRefusal(dead.after, ttl).Add(late))
			g, err := t.attempt(t.b, dead.key, t.long())
			if err != nil {
				t.fatalf("the key of a dead holder%s is not free %v after its grant of %v, the store's clock being "+
					"stepped by %v: %v; "+
					"MaxLate is %v, EnforcedBy is %q", inMode(dead.shared), time.Since(dead.after), ttl, by, err, t.g.MaxLate,
					t.g.EnforcedBy)
			}
			ends = append(ends, g)
		}
		back()
		for _, g := range ends {
			_ = g.Release(t.ctx) // the step back may have ended the lease
		}
	}
}

func steppedClockKeepsTokenOrder(t *trial) {
	s := &tokens{t: t}
	grant := func(when string) {
		g := t.acquire(t.a, t.key, t.long())
		s.next(g, when)
		t.release(g)
	}
	grant("first grant")
	for _, by := range []time.Duration{-farStep, farStep} {
		back := t.steps(by)
		grant("after a step of the store's clock")
		back()
		grant("after a step of the store's clock to the right time")
	}
}
