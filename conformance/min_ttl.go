package conformance

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks at the shortest TTL of the store, where the margin is largest in proportion.
var minTTLChecks = []Check{
	{
		Name: "FreeKeyIsNotLost",
		Rule: "rule 2: an Acquire of a free key returns ErrLost only if its answer came after the deadline of the granted " +
			"TTL, however short",
		run: freeKeyIsNotLost,
	},
	{
		Name: "TTLBelowMinTTLIsMinTTL",
		Rule: "rule 3: a TTL below Guarantees.MinTTL acts as MinTTL, with and without a wait: the lease lives, its " +
			"deadline and Inspect say so",
		run: ttlBelowMinTTLIsMinTTL,
	},
	{
		Name: "MinTTLIsKept",
		Rule: "rules 1, 3 and 9: a lease of Guarantees.MinTTL is exclusive, can be renewed to live on, and passes to a " +
			"waiter when it ends",
		run: minTTLIsKept,
	},
}

// A briefWay is a way to acquire a free key.
type briefWay struct{ wait, shared bool }

func (t *trial) briefWays() []briefWay {
	ways := []briefWay{{}, {wait: true}}
	if t.g.Shared {
		ways = append(ways, briefWay{shared: true}, briefWay{shared: true, wait: true})
	}
	return ways
}

// granted attempts to acquire a free key for a TTL that may expire before the reply arrives. In that case, it returns
// nil.
func (t *trial) granted(key string, ttl time.Duration, way briefWay) *grant {
	before := time.Now()
	l, err := t.a.Acquire(t.ctx, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: way.wait,
		Shared: way.shared})
	after := time.Now()
	t.lateOnTimeout(err, before)
	switch deadline := backend.Deadline(before, t.kept(t.g.Round(ttl))); {
	case errors.Is(err, backend.ErrLost) && after.Before(deadline):
		t.breaks(2, "Acquire of a free key for %v: %v, %v before the deadline of a lease granted for %v", ttl, err,
			deadline.Sub(after), t.g.Round(ttl))
	case errors.Is(err, backend.ErrLost):
		return nil
	case err != nil:
		t.breaksText(grantRule, "Acquire of a free key for %v: %v", ttl, err)
	}
	g := &grant{Lease: l, client: t.a, key: key, owner: ownerOf(l), ttl: ttl, before: before, after: after,
		shared: way.shared}
	t.mu.Lock()
	t.grants = append(t.grants, g)
	t.mu.Unlock()
	return g
}

// ownerOf returns the owner of a lease of kit.Leases. For other leases it returns an empty string.
func ownerOf(l backend.Lease) string {
	if l, ok := l.(interface{ Owner() string }); ok {
		return l.Owner()
	}
	return ""
}

// tiny returns TTLs up to MinTTL, and one slightly above.
func (t *trial) tiny() []time.Duration {
	return []time.Duration{1, time.Microsecond, time.Millisecond, max(1, t.g.MinTTL/2), max(1, t.g.MinTTL-1),
		max(1, t.g.MinTTL), t.g.MinTTL + 1}
}

// attemptsInTime is how often a request for a short TTL is repeated if the reply arrives after the lease's end.
const attemptsInTime = 20

func freeKeyIsNotLost(t *trial) {
	ttls := t.tiny()
	var inTime int
	for range attemptsInTime {
		for _, ttl := range ttls {
			for _, way := range t.briefWays() {
				if g := t.granted(t.newKey(), ttl, way); g != nil {
					inTime++
					_ = g.Release(t.ctx)
				}
			}
		}
		if inTime >= 3*len(ttls) {
			return
		}
	}
	t.provesNothing("%d grants arrived in time", inTime)
}

// eachBrief runs f with leases of short TTLs, acquired in each briefWay, until f reports that it has seen enough.
func (t *trial) eachBrief(ttls []time.Duration, f func(g *grant) (seen bool)) {
	ways := t.briefWays()
	t.inChunks(len(ways)*len(ttls), 2, func(i int) {
		ttl, way := ttls[i/len(ways)], ways[i%len(ways)]
		for range attemptsInTime {
			if g := t.granted(t.newKey(), ttl, way); g != nil && f(g) {
				return
			}
		}
		t.provesNothing("TTL %v: no lease could be looked at before it ended", ttl)
	})
}

func ttlBelowMinTTLIsMinTTL(t *trial) {
	t.eachBrief(t.tiny(), func(g *grant) bool {
		granted, deadline := t.g.Round(g.ttl), g.Deadline()
		if least := backend.Deadline(g.before, t.kept(granted)); deadline.Before(least) {
			t.fatalf("TTL %v acts as %v: the deadline is %v early", g.ttl, granted, least.Sub(deadline))
		}
		if most := backend.Deadline(time.Now(), granted); deadline.After(most) {
			t.fatalf("TTL %v acts as %v: the deadline is %v late", g.ttl, granted, deadline.Sub(most))
		}
		begun := time.Now()
		h := t.inspect(g.key)
		after := time.Now()
		switch most := granted + t.g.MaxLate + backend.Margin(granted); {
		case !after.Before(deadline):
			return false
		case !h.Held():
			t.fatalf("TTL %v acts as %v: Inspect says that the key is free %v before the deadline", g.ttl, granted,
				deadline.Sub(after))
		case h.TTL != 0 && h.TTL < deadline.Sub(after):
			t.fatalf("TTL %v acts as %v: Inspect returns a TTL of %v, %v before the deadline", g.ttl, granted, h.TTL,
				deadline.Sub(begun))
		case h.TTL > most:
			t.fatalf("TTL %v acts as %v: Inspect returns a TTL of %v", g.ttl, granted, h.TTL)
		}
		t.succeeds(t.b, &grant{Lease: g.Lease, client: g.client, key: g.key, owner: g.owner, ttl: granted, before: g.before,
			after: g.after, shared: g.shared},
			max(time.Millisecond, granted/32))
		return true
	})
}

func minTTLIsKept(t *trial) {
	least := max(t.g.MinTTL, 8*time.Millisecond) // a shorter lease ends before it can be inspected
	least = t.g.Round(least * time.Duration(t.stretch))
	t.eachBrief([]time.Duration{least, least, least},
		func(g *grant) bool { return t.livesOn(g, least) && t.passesOn(g, least) })
}

// livesOn renews g every third of its TTL, for several TTLs, alternating between the ways to renew. It returns false if
// a renewal was too late.
func (t *trial) livesOn(g *grant, ttl time.Duration) bool {
	const renewals = 8
	ways := t.renewals()
	for i := range renewals {
		if time.Sleep(ttl / 3); !g.live(time.Now()) {
			return false
		}
		way, deadline, before := ways[i%len(ways)], g.Deadline(), time.Now()
		err := way.renew(t.ctx, g, ttl)
		after := time.Now()
		t.lateOnTimeout(err, before)
		switch now := g.Deadline(); {
		case !after.Before(deadline), err != nil && !after.Before(backend.Deadline(before, t.kept(ttl))):
			return false
		case err != nil:
			t.fatalf("%s to MinTTL, %v, answered %v before the deadline: %v", way.what, ttl, deadline.Sub(after), err)
		case now.Before(backend.Deadline(before, t.kept(ttl))):
			t.fatalf("%s to MinTTL, %v: the deadline is %v early", way.what, ttl, backend.Deadline(before, t.kept(ttl)).Sub(now))
		case g.gone() && time.Now().Before(now):
			t.breaks(6, "Lost is closed %v before the deadline of a lease of MinTTL, %v", time.Until(now), ttl)
		}
		g.before, g.after = before, after
	}
	return true
}

// passesOn makes a waiter acquire the key of g, also for MinTTL, when g has expired. It returns false if the waiter's
// lease ended before it could be inspected.
func (t *trial) passesOn(g *grant, ttl time.Duration) bool {
	w := t.wait(t.b, g.key, ttl)
	bound := t.g.Round(ttl) + t.handOff()
	if !t.within(bound, w.done) {
		t.notInTime(t.ruleText(9), "a waiter has not been granted the key of a dead holder within %v, whose lease was "+
			"for MinTTL, %v", bound, ttl)
	}
	if errors.Is(w.err, backend.ErrLost) { // the grant arrived too late: the machine is slow
		return false
	}
	next := w.granted(t, tick, "after the expiry of a lease of MinTTL")
	if early := g.Deadline().Sub(next.after); early > 0 {
		t.doubleGrant("a waiter was granted the key %v before the deadline of a lease of MinTTL", early)
	}
	if !t.within(10*tick, g.Lost()) {
		t.breaks(6, "Lost is open %v after the deadline of a lease of MinTTL, %v", time.Since(g.Deadline()), ttl)
	}
	t.isLost(g.Renew(t.ctx, ttl), "Renew of an expired lease of MinTTL")
	t.succeeds(t.a, next, max(time.Millisecond, ttl/32))
	return true
}
