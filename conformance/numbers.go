package conformance

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

var numberChecks = []Check{
	{
		Name: "OddTTLsAreKept",
		Rule: "rule 3: a TTL is a minimum, with and without a wait, shared, and by Resume: odd ones from 2 seconds to " +
			"2 minutes, and those near the limits of numbers, are kept in full",
		run: oddTTLsAreKept,
	},
	{
		Name: "RenewalsAreKept",
		Rule: "rule 3: a renewal's TTL is a minimum too, alone and in a batch: odd ones, and any up to Guarantees.MaxTTL",
		run:  renewalsAreKept,
	},
	{
		Name: "TinyRenewalsAreRoundedUp",
		Rule: "rule 3: a renewal for less than Guarantees.MinTTL is one for MinTTL: neither an error, nor the " +
			"end of the lease",
		run: tinyRenewalsAreRoundedUp,
	},
}

// passing returns a TTL that leaves time for a few requests, but is short enough to wait for its end.
func (t *trial) passing() time.Duration {
	const some = 500 * time.Millisecond
	return t.g.Round(t.short() + some*time.Duration(t.stretch))
}

// numbers returns TTLs that are not round, and TTLs slightly longer than an integer of some size can hold. If such a
// TTL overflows, only a short TTL remains, which soon expires. numbers returns only as many as a check can test soon,
// atOnce at a time.
func (t *trial) numbers(atOnce int) []time.Duration {
	const ns, us, ms, s = time.Nanosecond, time.Microsecond, time.Millisecond, time.Second
	const day = 24 * time.Hour
	all := []time.Duration{
		2999 * ms, 3700 * ms, 5500*ms + 1, 9999 * ms, 10*s + 1, 10999 * ms, 11500*ms + 1, 14900 * ms, 19999 * ms, 29900 * ms,
		31700 * ms,
		59999 * ms, 61700 * ms, 89900 * ms, 119900 * ms, time.Hour - ms, time.Hour + 59*s, day - ms, day + time.Hour - 1,
		30*day - s, 30*day + s, 31 * day, 365*day + 1, t.longest() - s, t.longest(),
	}
	for _, wrapped := range []time.Duration{
		1 << 31 * ns, 1 << 32 * ns, 1 << 31 * us, 1 << 32 * us, 1 << 15 * ms, 1 << 16 * ms, 1 << 31 * ms, 1 << 32 * ms,
		1 << 15 * s, 1 << 16 * s,
		1 << 24 * s,
	} {
		all = append(all, wrapped+t.short()/2, wrapped+day/2)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	all = slices.DeleteFunc(all, func(ttl time.Duration) bool { return ttl > t.longest() || ttl <= 0 })
	if most := 6 * atOnce; len(all) > most { // the store holds few leases: a random selection
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:most]
	}
	return all
}

func oddTTLsAreKept(t *trial) {
	if !t.inspectHasTTL() {
		t.keptToTheEnd()
	}
	ways := []func(){
		func() {
			t.grantsKept("Acquire", func(ttl time.Duration) *grant { return t.acquire(t.a, t.newKey(), ttl) })
		},
		func() { t.grantsKept("Acquire that waits", t.waitedFor) },
	}
	if t.g.Shared {
		ways = append(ways, func() {
			t.grantsKept("shared Acquire", func(ttl time.Duration) *grant { return t.read(t.a, t.newKey(), ttl) })
		}, func() { t.grantsKept("shared Acquire that waits", t.waitedToRead) })
	}
	if _, ok := t.b.(backend.Resumer); ok {
		ways = append(ways, func() {
			t.grantsKept("Resume", func(ttl time.Duration) *grant {
				return t.resume(t.a, t.acquire(t.b, t.newKey(), t.long()), ttl)
			})
		})
		if t.g.Shared {
			ways = append(ways, func() {
				t.grantsKept("Resume of a reader", func(ttl time.Duration) *grant {
					return t.resume(t.a, t.read(t.b, t.newKey(), t.long()), ttl)
				})
			})
		}
	}
	t.inChunks(len(ways), t.grantsAtOnce()+1, func(i int) { ways[i]() }) // the other one is an attempt
}

// grantsAtOnce returns how many leases one of the ways of oddTTLsAreKept holds at once.
func (t *trial) grantsAtOnce() int {
	const ways = 6
	return max(1, t.h.Many/ways-1)
}

// grantsKept acquires leases for TTLs of all sorts, and checks that the store keeps them.
func (t *trial) grantsKept(what string, get func(ttl time.Duration) *grant) {
	each := t.grantsAtOnce()
	for ttls := range slices.Chunk(t.numbers(each), each) {
		grants := make([]*grant, len(ttls))
		t.inTurns(len(ttls), func(i int) {
			grants[i] = get(ttls[i])
			t.keeps(grants[i], ttls[i], grants[i].before, grants[i].after, what)
		})
		t.stayKept(grants, ttls)
	}
}

// inspectHasTTL reports whether Inspect returns the remaining TTL.
func (t *trial) inspectHasTTL() bool {
	g := t.acquire(t.a, t.newKey(), t.long())
	defer t.release(g)
	return t.inspect(g.key).TTL > 0
}

// keptToTheEnd waits for odd TTLs to run out, of leases that were granted, renewed or waited for. It is for stores
// whose Inspect returns no TTL. A TTL that was cut to whole seconds ends early.
func (t *trial) keptToTheEnd() {
	var odd []time.Duration
	const all = 100
	for _, ttl := range t.numbers(all) {
		if ttl > 2*time.Second && ttl < 11*time.Second && ttl%time.Second >= time.Second/2 {
			odd = append(odd, ttl)
		}
	}
	const ways = 3
	var asked atomic.Int32 // leases whose key was requested in time
	t.together(min(ways*len(odd), t.h.Many), func(i int) {
		ttl := odd[len(odd)-1-i/ways]
		var g *grant
		switch i % ways {
		case 0:
			g = t.acquire(t.a, t.newKey(), ttl)
		case 1:
			g = t.acquire(t.a, t.newKey(), ttl)
			t.renew(g, t.long())
			t.renew(g, ttl)
		default:
			g = t.waitedFor(ttl)
		}
		g.ttl = ttl
		for left := time.Until(g.Deadline()); left >= ttl/20; left = time.Until(g.Deadline()) {
			time.Sleep(left - ttl/25) // the deadline may move on meanwhile
		}
		if t.refusedOrExpired(t.b, g, false) {
			asked.Add(1)
		}
	})
	if asked.Load() == 0 && len(odd) > 0 {
		t.tooLate("each of %d leases ended before it was asked for, shortly before its end", ways*len(odd))
	}
}

func renewalsAreKept(t *trial) {
	gets := []func(b backend.Backend, key string, ttl time.Duration) *grant{t.acquire}
	if t.g.Shared {
		gets = append(gets, t.read)
	}
	renewals := []func(grants []*grant, ttls []time.Duration){
		func(grants []*grant, ttls []time.Duration) {
			t.inTurns(len(ttls), func(i int) { t.renew(grants[i], ttls[i]) })
		},
	}
	if _, ok := t.a.(backend.BatchRenewer); ok {
		renewals = append(renewals, t.renewTogether)
	}
	ways := len(gets) * len(renewals)
	t.together(ways, func(i int) {
		what := []string{"Renew", "RenewBatch"}[i/len(gets)] + []string{"", " of a reader"}[i%len(gets)]
		t.renewalsKept(what, ways, gets[i%len(gets)], renewals[i/len(gets)])
	})
}

// renewTogether renews each of grants to its TTL, in one batch.
func (t *trial) renewTogether(grants []*grant, ttls []time.Duration) {
	var batch []backend.Renewal
	var deadlines []time.Time
	for i, g := range grants {
		batch = append(batch, backend.Renewal{Lease: g.Lease, TTL: ttls[i]})
		deadlines = append(deadlines, g.Deadline())
	}
	begun := time.Now()
	errs := t.batcher().RenewBatch(t.ctx, batch)
	t.answeredAll(errs, begun)
	for i, err := range errs {
		t.lostInTime(err, deadlines[i], begun, ttls[i])
		if err != nil {
			t.fatalf("RenewBatch to %v: %v", ttls[i], err)
		}
	}
}

// renewalsKept renews leases to TTLs of all sorts, and then back to a usual one. ways is how many such tests run at
// once.
func (t *trial) renewalsKept(
	what string, ways int, get func(b backend.Backend, key string, ttl time.Duration) *grant,
	renew func(grants []*grant, ttls []time.Duration),
) {
	each := max(1, t.h.Many/ways)
	for ttls := range slices.Chunk(t.numbers(each), each) {
		grants, hasTTL := make([]*grant, len(ttls)), make([]bool, len(ttls))
		t.inTurns(len(ttls), func(i int) {
			first := get(t.b, t.newKey(), ttls[i])
			hasTTL[i] = t.inspect(first.key).TTL > 0
			t.release(first)
			grants[i] = get(t.a, first.key, t.long())
		})
		before := time.Now()
		renew(grants, ttls)
		after := time.Now()
		t.inTurns(len(ttls), func(i int) {
			t.keeps(grants[i], ttls[i], before, after, what)
			if h := t.inspect(grants[i].key); hasTTL[i] && h.TTL <= 0 && grants[i].live(time.Now()) {
				t.fatalf("%s to %v: Inspect returns no TTL, as if the lease never ended; it does of one acquired for as long",
					what, ttls[i])
			}
		})
		t.stayKept(grants, ttls)
	}
}

// keeps fails unless g lives for ttl, as seen by its holder and the other client. The request that granted or renewed g
// was made between before and after.
func (t *trial) keeps(g *grant, ttl time.Duration, before, after time.Time, what string) {
	t.keepsDeadline(g, ttl, before, after, what)
	t.remains(g, ttl, what)
	t.keepsWhole(g, ttl, before, what)
}

// keepsWhole fails unless the store keeps g for its whole TTL, and not only until its deadline, which has a margin. The
// request was sent after before.
func (t *trial) keepsWhole(g *grant, ttl time.Duration, before time.Time, what string) {
	if t.kept(ttl) < ttl {
		return
	}
	h := t.inspect(g.key)
	elapsed := time.Since(before)
	// slack allows for clocks that run at different speeds, and for rounding by Inspect
	slack := elapsed/100 + max(2*time.Millisecond, t.g.Granularity)
	if least := ttl - elapsed - slack; h.Owner == g.owner && h.TTL != 0 && h.TTL < least {
		t.fatalf("%s for %v: Inspect returns a TTL of %v, want %v at least, as a TTL is a minimum", what, ttl, h.TTL, least)
	}
}

// keepsDeadline is the part of keeps that concerns the holder.
func (t *trial) keepsDeadline(g *grant, ttl time.Duration, before, after time.Time, what string) {
	t.lastsFor(g, ttl, before, what)
	t.endsWithin(g, ttl, after, what)
}

// lastsFor fails if the deadline of g is earlier than a grant or renewal for ttl allows, which was sent after
// before.
func (t *trial) lastsFor(g *grant, ttl time.Duration, before time.Time, what string) {
	if deadline, least := g.Deadline(), backend.Deadline(before, t.kept(ttl)); deadline.Before(least) {
		t.fatalf("%s for %v: the deadline is %v earlier than the TTL allows", what, ttl, least.Sub(deadline))
	}
}

// endsWithin fails if the deadline of g is later than a grant or renewal for ttl allows, which returned before
// after.
func (t *trial) endsWithin(g *grant, ttl time.Duration, after time.Time, what string) {
	deadline := g.Deadline()
	if t.kept(ttl) < ttl { // the deadline may have moved on before it was read
		after = time.Now()
	}
	if most := backend.Deadline(after, t.kept(t.g.Round(ttl))); deadline.After(most) {
		t.fatalf("%s for %v: the deadline is %v later than its margin allows", what, ttl, deadline.Sub(most))
	}
}

// remains fails unless the store still keeps g, which may have been granted or renewed for ttl a while ago.
func (t *trial) remains(g *grant, ttl time.Duration, what string) {
	begun, deadline := time.Now(), g.Deadline()
	h := t.inspect(g.key)
	if now := time.Now(); h.Owner != g.owner && now.Before(deadline) {
		if h.Held() {
			t.doubleGrant("%s for %v: %q holds the key %v before the deadline of its holder, %q", what, ttl, h.Owner,
				deadline.Sub(now), g.owner)
		}
		t.fatalf("%s for %v: %q holds the key %v before the holder's deadline, want %q", what, ttl, h.Owner,
			deadline.Sub(now), g.owner)
	}
	if h.Owner != g.owner {
		t.tooLate("a lease of %v ended before it could be looked at, %v after its deadline", ttl, begun.Sub(deadline))
	}
	if least := time.Until(deadline); h.TTL != 0 && h.TTL < least {
		t.fatalf("%s for %v: Inspect returns a TTL of %v, when the holder counts on %v", what, ttl, h.TTL, least)
	}
	if most := t.g.Round(ttl) + t.g.MaxLate + backend.Margin(ttl); h.TTL > most {
		t.fatalf("%s for %v: Inspect returns a TTL of %v", what, ttl, h.TTL)
	}
}

// stayKept waits until a TTL that overflowed would have expired, checks the leases, and releases them.
func (t *trial) stayKept(grants []*grant, ttls []time.Duration) {
	time.Sleep(t.short())
	t.inTurns(len(grants), func(i int) {
		g, again := grants[i], 4*t.short()
		if ttls[i] < again {
			return // the lease may rightly have ended
		}
		t.refused(t.b, g)
		t.remains(g, ttls[i], "a lease")
		t.renew(g, t.long())
		t.remains(g, t.long(), "Renew back")
		t.release(g)
	})
}

func tinyRenewalsAreRoundedUp(t *trial) {
	var ttls []time.Duration
	for _, ttl := range []time.Duration{1, time.Microsecond, time.Millisecond, t.g.MinTTL / 2, t.g.MinTTL - 1} {
		const least = 8 * time.Millisecond // a shorter lease ends before it can be inspected
		if ttl > 0 && t.g.Round(ttl) >= least {
			ttls = append(ttls, ttl)
		}
	}
	if len(ttls) == 0 {
		t.skipf("the store grants TTLs that are over at once (Guarantees.MinTTL)")
	}
	gets := []func(b backend.Backend, key string, ttl time.Duration) *grant{t.acquire}
	if t.g.Shared {
		gets = append(gets, t.read)
	}
	for _, way := range t.renewals() {
		t.inChunks(len(gets)*len(ttls), 1, func(i int) {
			const attempts = 20
			ttl := ttls[i/len(gets)]
			for n := 0; !t.renewsTiny(gets[i%len(gets)](t.a, t.newKey(), t.long()), ttl, way); n++ {
				if n == attempts {
					t.tooLate("%s to %v: no answer came in time", way.what, ttl)
				}
			}
		})
	}
}

// renewsTiny renews g for less than MinTTL. It returns false if the lease ended before the check could judge it.
func (t *trial) renewsTiny(g *grant, ttl time.Duration, way renewal) bool {
	granted, what := t.g.Round(ttl), way.what+inMode(g.shared)
	last, before := g.Deadline(), time.Now()
	err := way.renew(t.ctx, g, ttl)
	after, deadline := time.Now(), g.Deadline()
	t.lateOnTimeout(err, before)
	switch {
	case errors.Is(err, backend.ErrLost) && (!after.Before(last) || !after.Before(backend.Deadline(before, granted))):
		return false
	case err != nil:
		t.fatalf("%s to %v, which is rounded up to %v: %v, want nil", what, ttl, granted, err)
	case deadline.Before(backend.Deadline(before, t.kept(granted))):
		t.fatalf("%s to %v, which is rounded up to %v: the deadline is %v away", what, ttl, granted, deadline.Sub(before))
	case deadline.After(backend.Deadline(after, granted)):
		t.fatalf("%s to %v, which is rounded up to %v: the deadline is %v away", what, ttl, granted, deadline.Sub(after))
	}
	other, err := t.requestKey(t.ctx, t.b, g.key, t.long(), false)
	t.lateOnTimeout(err, after)
	switch {
	case err != nil && !errors.Is(err, backend.ErrHeld):
		t.fatalf("Acquire of a held key: %v, want ErrHeld", err)
	case err == nil && other.after.Before(deadline):
		t.doubleGrant("%s to %v, which is rounded up to %v: a second owner was granted the key %v before the "+
			"holder's deadline",
			what, ttl, granted, deadline.Sub(other.after))
	case err == nil:
		t.release(other)
		return false
	}
	t.outlast(t.lastRefusal(after, ttl).Add(time.Millisecond))
	t.free(t.b, g.key, "after a renewal for less than Guarantees.MinTTL, when that has passed")
	return true
}
