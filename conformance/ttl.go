package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

var ttlChecks = []Check{
	{
		Name: "TTLNotEarly",
		Rule: "rules 2 and 3: a key is not granted again before the holder's deadline, nor before the TTL it asked for",
		run:  ttlNotEarly,
	},
	{
		Name: "TTLNotLate",
		Rule: "rule 3: the key of a dead holder is free by the granted TTL plus Guarantees.MaxLate",
		run:  ttlNotLate,
	},
	{
		Name: "TTLIsRoundedUp",
		Rule: "rule 3: a TTL is a minimum: a coarser store rounds up, to what Guarantees.Round returns",
		run:  ttlIsRoundedUp,
	},
	{
		Name: "DeadlineHasMargin",
		Rule: "rule 2: a deadline counts from before the request was sent, less the margin of 1 % and 2 ms",
		run:  deadlineHasMargin,
	},
	{
		Name: "RefusedAttemptChangesNothing",
		Rule: "rule 3: a refused attempt, of a reader too, changes neither the holder's owner, nor its token, nor its TTL",
		run:  refusedAttemptChangesNothing,
	},
	{
		Name: "RefusedAttemptsProlongNothing",
		Rule: "rule 3: attempts that are refused do not keep a dead holder's lease alive, and neither does who inspects " +
			"it, or names another owner to Break or Resume",
		run: refusedAttemptsProlongNothing,
	},
}

// succeeds requests the key of g, with pauses, until the key is granted. It fails if the grant is too early or too late
// for the TTL of g.
func (t *trial) succeeds(b backend.Backend, g *grant, pause time.Duration) {
	t.release(t.successor(b, g, pause))
}

// successor is succeeds without the release of the lease that was granted.
func (t *trial) successor(b backend.Backend, g *grant, pause time.Duration) *grant {
	floor := g.before.Add(g.ttl - backend.Margin(g.ttl))
	last := t.lastRefusal(g.after, g.ttl)
	for s := (stalls{}); ; {
		sent := time.Now()
		next, err := t.requestKey(t.ctx, b, g.key, t.long(), false)
		t.lateOnTimeout(err, sent)
		switch {
		case err == nil && g.live(next.after):
			t.doubleGrant("a key held for %v was granted to a second owner %v before the holder's deadline", g.ttl,
				g.Deadline().Sub(next.after))
		case err == nil && next.after.Before(floor):
			t.fatalf("TTL %v: granted again after %v", g.ttl, next.after.Sub(g.before))
		case err == nil:
			return next
		case !errors.Is(err, backend.ErrHeld):
			t.fatalf("Acquire: %v", err)
		case sent.After(last.Add(s.sum)):
			t.notInTime(t.rule, "TTL %v: still refused to an attempt made %v after the grant; Guarantees.MaxLate is %v",
				g.ttl, sent.Sub(g.after), t.g.MaxLate)
		}
		time.Sleep(pause)
		s.saw(time.Since(sent), pause)
	}
}

func ttlNotEarly(t *trial) {
	phases := min(200, t.h.Many)
	t.together(phases, func(i int) {
		time.Sleep(rand.N(t.short()))
		ttl := t.short() + rand.N(t.short()/4)
		g := t.acquire(t.a, t.key+"-"+t.newKey(), ttl)
		time.Sleep(ttl/2 + rand.N(ttl/8))
		if g.live(time.Now().Add(ttl / 8)) {
			t.refused(t.b, g)
		}
		// Begin shortly before the deadline, at a random phase.
		time.Sleep(time.Until(g.Deadline()) - backend.Margin(ttl) - rand.N(5*time.Millisecond))
		t.succeeds(t.b, g, 3*time.Millisecond+rand.N(4*time.Millisecond))
	})
}

func ttlNotLate(t *trial) {
	t.together(min(50, t.h.Many), func(int) {
		ttl := t.short() + rand.N(t.short())
		g := t.acquire(t.a, t.newKey(), ttl)
		if !t.within(ttl+soon+t.g.Round(ttl), g.Lost()) {
			t.fatalf("Lost is not closed %v after the deadline", time.Since(g.Deadline()))
		}
		// A single attempt, so that no other request can end the lease.
		t.outlast(t.lastRefusal(g.after, ttl).Add(time.Millisecond))
		next := t.successor(t.b, g, time.Millisecond)
		time.Sleep(3 * tick) // a store that has just found the expired lease must not remove this one
		t.release(next)
	})
	t.endTogether()
}

// endTogether lets as many leases as one client can have end at about the same time. All of their keys must then be
// free in time.
func (t *trial) endTogether() {
	grants := make([]*grant, t.h.Many)
	t.inTurns(len(grants), func(i int) { grants[i] = t.brief(t.a, t.newKey(), t.short()) })
	var last time.Time
	for _, g := range grants {
		if g != nil {
			last = later(last, t.lastRefusal(g.after, g.ttl))
		}
	}
	t.outlast(last.Add(time.Millisecond))
	t.inTurns(len(grants), func(i int) {
		if g := grants[i]; g != nil {
			t.succeeds(t.b, g, time.Millisecond)
		}
	})
}

func ttlIsRoundedUp(t *trial) {
	ttls := []time.Duration{
		t.short() + 1, t.short() + time.Millisecond - 1, t.short() + time.Millisecond + 1,
		t.short()*3/2 + 1, time.Second - 1, time.Second + 1, 1300 * time.Millisecond, 1900 * time.Millisecond,
		1999*time.Millisecond + 999,
	}
	if t.g.MinTTL > time.Millisecond {
		ttls = append(ttls, t.g.MinTTL/2, t.g.MinTTL-1)
	}
	t.inChunks(len(ttls), 1, func(i int) {
		ttl := ttls[i]
		var g *grant
		const attempts = 20
		for n := 0; g == nil; n++ {
			if n == attempts {
				t.tooLate("TTL %v: no grant arrived in time", ttl)
			}
			g = t.brief(t.a, t.newKey(), ttl)
		}
		if d := backend.Deadline(g.before, t.kept(ttl)); g.Deadline().Before(d) {
			t.fatalf("TTL %v: the deadline is %v early", ttl, d.Sub(g.Deadline()))
		}
		if d := backend.Deadline(g.after, t.g.Round(ttl)); g.Deadline().After(d) {
			t.fatalf("TTL %v: the deadline is %v late for a granted TTL of %v", ttl, g.Deadline().Sub(d), t.g.Round(ttl))
		}
		time.Sleep(time.Until(g.Deadline()) - ttl/4) // a truncated TTL has mostly expired by then; a busy machine wakes late
		t.succeeds(t.b, g, 5*time.Millisecond)
	})
}

func deadlineHasMargin(t *trial) {
	for _, ttl := range []time.Duration{t.short(), 4 * t.short(), t.long(), 2 * t.long()} {
		g := t.acquire(t.a, t.newKey(), ttl)
		t.keepsDeadline(g, ttl, g.before, g.after, "Acquire")
		t.onMonotonicClock(g, "Acquire")
		longer := min(2*ttl, t.longest())
		for _, way := range t.renewals() {
			before := time.Now()
			t.renewBy(g, longer, func() error { return way.renew(t.ctx, g, longer) })
			t.keepsDeadline(g, longer, before, time.Now(), way.what)
			t.onMonotonicClock(g, way.what)
		}
		t.release(g)
	}
	g := t.waitedFor(t.long())
	t.onMonotonicClock(g, "Acquire that waited")
	if _, ok := t.b.(backend.Resumer); ok {
		t.onMonotonicClock(t.resume(t.b, g, t.long()), "Resume")
	}
	t.release(g)
}

// onMonotonicClock fails unless the deadline of g, which what has set, has a reading of the monotonic clock.
func (t *trial) onMonotonicClock(g *grant, what string) {
	if isMonotonic(time.Now()) && !isMonotonic(g.Deadline()) {
		t.fatalf("after %s, the deadline has no reading of the monotonic clock, so that a step of the wall clock moves it",
			what)
	}
}

// isMonotonic reports whether a time has a reading of the monotonic clock. In fake time none has.
func isMonotonic(at time.Time) bool { return at != at.Round(0) }

func refusedAttemptChangesNothing(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	for _, shared := range t.modes() {
		t.refusalsChangeNothing(g, shared)
	}
	t.renew(g, t.long())
	t.release(g)
	t.becomesFree(t.b, t.key, t.handOff(), "after release") // the cleanup of the waits may still be under way
	if t.g.Shared {
		t.refusalsSpareReader()
	}
}

// refusalsSpareReader requests the key of a reader in vain: exclusively and, behind a waiting writer, shared.
func (t *trial) refusalsSpareReader() {
	g := t.read(t.a, t.newKey(), t.long())
	t.refusalsChangeNothing(g, false)
	t.queueAtMostOf(g.key, 0)
	t.renew(g, t.long())
	w := t.wait(t.b, g.key, t.long())
	t.arrived(g.key, 1)
	t.refusalsChangeNothing(g, true)
	w.stillWaits(t, g, t.rule)
	t.release(g)
	t.release(w.granted(t, t.handOff(), "after the release of a reader whose key was requested in vain"))
	t.becomesFree(t.b, g.key, t.handOff(), "after the writer's release")
}

// refusalsChangeNothing requests the key of g, which has just been granted or renewed, in vain.
func (t *trial) refusalsChangeNothing(g *grant, shared bool) {
	for i, client := range []backend.Backend{t.a, t.b, t.b} {
		for _, ttl := range []time.Duration{t.short(), t.long(), 2 * t.long()} {
			wait := i == 2
			ctx, cancel := context.WithCancel(t.ctx)
			if wait {
				ctx, cancel = context.WithTimeout(t.ctx, t.short()/8)
			}
			begun := time.Now()
			other, err := t.request(ctx, client, backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait,
				Shared: shared})
			cancel()
			if !wait {
				t.lateOnTimeout(err, begun)
			}
			switch {
			case other != nil && g.shared && shared:
				t.breaks(9, "a shared request was granted the key, which an exclusive one waits for")
			case other != nil:
				t.doubleGrant("a second owner was granted the key")
			case wait && !errors.Is(err, context.DeadlineExceeded):
				t.fatalf("waiting Acquire whose context ended: %v, want context.DeadlineExceeded", err)
			case !wait && !errors.Is(err, backend.ErrHeld):
				t.fatalf("Acquire of a held key: %v, want ErrHeld", err)
			}
			t.describes(g, t.long())
		}
	}
}

// describes fails unless Inspect returns the owner, token and TTL of g, whose last TTL is ttl.
func (t *trial) describes(g *grant, ttl time.Duration) { t.describesLater(g, ttl, 0) }

// describesLater is describes for a store that may have postponed the expiry of g by late.
func (t *trial) describesLater(g *grant, ttl, late time.Duration) {
	deadline, before := g.Deadline(), time.Now() // the deadline may move on by itself
	h := t.inspect(g.key)
	after := time.Now()
	switch {
	case h.Owner != g.owner && !g.live(after):
		t.tooLate("a lease of %v ended before the store could be asked about it", ttl)
	case h.Owner != g.owner:
		t.fatalf("Inspect says that %q holds the key, want %q", h.Owner, g.owner)
	case h.Token != 0 && h.Token != g.Token():
		t.fatalf("Inspect returns token %d, the lease has %d", h.Token, g.Token())
	case h.TTL == 0:
		return
	}
	granted := t.g.Round(ttl)
	if least := deadline.Sub(after); h.TTL < least {
		t.fatalf("Inspect returns a TTL of %v when the lease has %v left at least", h.TTL, least)
	}
	if most := granted + t.g.MaxLate + backend.Margin(granted) + late; h.TTL > most {
		t.fatalf("Inspect returns a TTL of %v, of a lease granted for %v", h.TTL, granted)
	}
	if t.kept(ttl) < ttl {
		return
	}
	// The deadline shows when the request was sent, up to the time that its reply took to arrive.
	sent := deadline.Add(backend.Margin(granted) - granted)
	const slack = time.Second
	if most := t.lastRefusal(sent, ttl).Sub(before) + slack + late; h.TTL > most {
		if before.Sub(sent) > slack { // the store may have granted the lease that much later
			t.tooLate("a lease was granted %v before the store could be asked about it", before.Sub(sent))
		}
		t.fatalf("Inspect returns a TTL of %v when the lease has at most %v left", h.TTL, most)
	}
}

func refusedAttemptsProlongNothing(t *trial) {
	pause := t.short() / 32
	looks := []func(b backend.Backend, key string){
		func(backend.Backend, string) {}, // only attempts
		func(b backend.Backend, key string) { _, _ = b.Inspect(t.ctx, key) },
	}
	if _, ok := t.a.(backend.Breaker); ok {
		looks = append(looks, func(b backend.Backend, key string) {
			_ = b.(backend.Breaker).Break(t.ctx, key, backend.NewOwner())
		})
	}
	if _, ok := t.a.(backend.Lister); ok {
		looks = append(looks, func(b backend.Backend, key string) { _, _ = b.(backend.Lister).List(t.ctx, key) })
	}
	if _, ok := t.a.(backend.Resumer); ok {
		looks = append(looks, func(b backend.Backend, key string) {
			_, _ = b.(backend.Resumer).Resume(t.ctx, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long()})
		})
	}
	t.inChunks(len(looks)+1, 2, func(i int) {
		if i == len(looks) {
			t.waitersProlongNothing()
			return
		}
		g := t.acquire(t.a, t.newKey(), t.short())
		var free atomic.Bool
		t.together(2, func(j int) {
			if j == 0 {
				defer free.Store(true)
				t.succeeds(t.b, g, pause)
				return
			}
			for n := 0; !free.Load() && !t.ended(); n++ {
				looks[i](t.client(n), g.key)
				time.Sleep(pause)
			}
		})
	})
	if t.g.Shared {
		t.refusedReadersProlongNothing(pause)
	}
}

// waitersProlongNothing lets a holder die while waiters come and leave, in the first half of its TTL.
func (t *trial) waitersProlongNothing() {
	const parts = 24 // each waiter waits for this part of the TTL
	g := t.acquire(t.a, t.newKey(), min(t.g.Round(4*t.awaited()), t.long()))
	for i := 0; time.Since(g.before) < g.ttl/2; i++ {
		w := t.wait(t.client(i), g.key, t.long())
		t.within(g.ttl/parts, w.done)
		w.cancel()
		t.eitherOr(w)
	}
	t.queueAtMostOf(g.key, 0)
	t.endsInTime(g)
}

// refusedReadersProlongNothing lets a writer die while readers request its key all the time.
func (t *trial) refusedReadersProlongNothing(pause time.Duration) {
	g := t.acquire(t.a, t.newKey(), t.short())
	last := t.lastRefusal(g.after, g.ttl)
	for n, s := 0, (stalls{}); ; n++ {
		sent := time.Now()
		reader, err := t.share(t.client(n), g.key, t.long())
		switch {
		case err == nil && g.live(reader.after):
			t.doubleGrant("a reader was granted the key %v before the deadline of a writer", g.Deadline().Sub(reader.after))
		case err == nil:
			t.release(reader)
			return
		case !errors.Is(err, backend.ErrHeld):
			t.breaksText(refuseRule, "shared Acquire of a held key: %v, want ErrHeld", err)
		case sent.After(last.Add(s.sum)):
			t.notInTime(t.rule, "TTL %v: readers that try all the time are still refused %v after the writer's grant; "+
				"Guarantees.MaxLate is %v", g.ttl, sent.Sub(g.after), t.g.MaxLate)
		}
		time.Sleep(pause)
		s.saw(time.Since(sent), pause)
	}
}
