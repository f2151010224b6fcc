package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var renewalChecks = []Check{
	{
		Name: "RenewKeepsAlive",
		Rule: "Lease.Renew prolongs the lease to its TTL from now, as often as it is called, and whatever requests for the " +
			"key it meets; the token stays",
		run: renewKeepsAlive,
	},
	{
		Name: "RenewShortens",
		Rule: "Lease.Renew may shorten a lease: the deadline and the store's expiry both move",
		run:  renewShortens,
	},
	{
		Name: "RenewAfterExpiry",
		Rule: "rule 5: Renew never revives: after the deadline it is ErrLost, and after expiry too, even if the key is free",
		run:  renewAfterExpiry,
	},
	{
		Name: "RenewAfterRelease",
		Rule: "rule 5: Renew never revives: after Release it is ErrLost, and the key stays free",
		run:  renewAfterRelease,
	},
	{
		Name: "RenewRacesRelease",
		Rule: "rule 5: whatever renewals are under way when Release returns nil, the key is free when all have returned",
		run:  renewRacesRelease,
	},
	{
		Name: "RenewRacesExpiry",
		Rule: "rules 1 and 5: a renewal at the last moment either keeps the lease for its new TTL or is ErrLost",
		run:  renewRacesExpiry,
	},
	{
		Name: "RenewRefusesBadTTL",
		Rule: "Lease.Renew refuses a TTL that is not positive or over MaxTTL with ErrInvalid and leaves the lease alone",
		run:  renewRefusesBadTTL,
	},
	{
		Name: "RenewHonoursContext",
		Rule: "Lease.Renew with an ended context fails with the context's error; the lease stays held until its deadline",
		run:  renewHonoursContext,
	},
}

func renewKeepsAlive(t *trial) {
	g := t.acquire(t.a, t.key, t.short())
	token := g.Token()
	for end := time.Now().Add(4 * t.short()); time.Now().Before(end); {
		time.Sleep(t.short() / 5)
		before := time.Now()
		t.renew(g, t.short())
		if least := backend.Deadline(before, t.kept(t.short())); g.Deadline().Before(least) {
			t.fatalf("after a renewal the deadline is %v earlier than its TTL allows", least.Sub(g.Deadline()))
		}
		for _, shared := range t.modes() {
			t.refusedAs(t.b, g, shared)
		}
		if g.gone() && g.live(time.Now()) {
			t.fatalf("Lost is closed on a lease that is renewed in time")
		}
	}
	if g.Token() != token {
		t.fatalf("the token changed from %d to %d with renewal", token, g.Token())
	}
	t.release(g)
	t.free(t.b, t.key, "after release")
	ways, modes := t.renewals(), t.modes()
	t.inChunks(len(ways)*len(modes), 3, func(i int) { t.renewsAmongRequests(modes[i/len(ways)], ways[i%len(ways)]) })
}

// renewsAmongRequests renews a lease again and again while both clients request its key all the time, so that each
// renewal meets attempts and waiters.
func (t *trial) renewsAmongRequests(shared bool, way renewal) {
	const (
		renewals = 40
		atMost   = 2 * time.Second // slow stores make fewer renewals
	)
	brief, typical := t.passing(), t.typical()
	g := t.getterOf(shared)(t.a, t.newKey(), brief)
	first := g.after.Add(t.g.Round(brief)) // by then the lease has ended if no renewal counts
	done := make(chan struct{})
	var others sync.WaitGroup
	request := func(f func(n int)) {
		others.Add(1)
		t.spawn(func() {
			defer others.Done()
			for n := 0; isOpen(done) && !t.ended(); n++ {
				begun := time.Now()
				f(n)
				moveClock(begun)
			}
		})
	}
	for _, client := range []backend.Backend{t.a, t.b} {
		request(func(n int) { t.refusedAs(client, g, !shared && t.g.Shared && n%2 == 1) })
		request(func(int) { t.waitsBriefly(client, g, 2*typical) })
	}
	end, renewed := time.Now().Add(atMost), 0
	for n := range t.rounds(renewals, end) {
		g.renews(t, way, []time.Duration{2 * t.long(), t.long()}[n%2])
		renewed++
	}
	close(done)
	others.Wait()
	time.Sleep(time.Until(first) + tick)
	t.heldBy(g)
	t.release(g)
	t.becomesFree(t.b, g.key, t.handOff(), "after the release of a lease that was renewed while others requested it")
	t.notef("%d times %s met requests", renewed, way.what)
}

// renews renews g, whose key others request at the same time. A store may ask for another attempt, but must not report
// that the lease is lost.
func (g *grant) renews(t *trial, way renewal, ttl time.Duration) {
	for begun := time.Now(); ; {
		deadline, before := g.Deadline(), time.Now()
		err := way.renew(t.ctx, g, ttl)
		t.lateOnTimeout(err, before)
		t.lostInTime(err, deadline, before, ttl)
		switch {
		case err == nil:
			return
		case !errors.Is(err, backend.ErrUnavailable) || time.Since(begun) > soon:
			t.fatalf("%s of a live lease, while others request its key: %v", way.what, err)
		}
		moveClock(before)
	}
}

// waitsBriefly waits for the key of g, which is held, for about d.
func (t *trial) waitsBriefly(b backend.Backend, g *grant, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.ctx, d)
	defer cancel()
	begun := time.Now()
	other, err := t.requestKey(ctx, b, g.key, t.long(), true)
	switch {
	case other != nil && g.live(other.after):
		t.doubleGrant("a waiter was granted the key of a lease that was being renewed, %v before its deadline",
			g.Deadline().Sub(other.after))
	case other != nil:
		t.tooLate("a waiter had its turn before the lease was renewed")
	case !errors.Is(err, context.DeadlineExceeded):
		t.unavailable(err, begun)
		t.fatalf("waiting Acquire whose context ended: %v, want context.DeadlineExceeded", err)
	}
}

func renewShortens(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	before := time.Now()
	t.renew(g, t.short())
	after := time.Now()
	if most := backend.Deadline(after, t.g.Round(t.short())); g.Deadline().After(most) {
		t.fatalf("after shortening to %v the deadline is %v away", t.short(), time.Until(g.Deadline()))
	}
	if !t.within(t.g.Round(t.short())+soon, g.Lost()) {
		t.fatalf("Lost is not closed %v after the shortened deadline", time.Since(g.Deadline()))
	}
	if early := time.Until(g.Deadline()); early > 0 {
		t.fatalf("Lost is closed %v before the shortened deadline", early)
	}
	t.succeeds(t.b, &grant{Lease: g.Lease, key: g.key, owner: g.owner, ttl: t.short(), before: before, after: after},
		5*time.Millisecond)
}

func renewAfterExpiry(t *trial) {
	t.renewsLost()
	g := t.acquire(t.a, t.key, t.short())
	t.expire(g)
	for range 2 {
		t.isLost(g.Renew(t.ctx, t.long()), "Renew after expiry")
	}
	if !g.gone() {
		t.fatalf("Lost is open again after Renew of an expired lease")
	}
	if g.Deadline().After(time.Now()) {
		t.fatalf("the deadline of an expired lease was moved into the future")
	}
	t.staysFree(t.key, "after Renew of an expired lease")
	t.free(t.b, t.key, "after Renew of an expired lease")
	t.isLost(g.Renew(t.ctx, t.long()), "Renew after expiry and another holder")
	t.free(t.b, t.key, "after Renew of an expired lease")
}

// renewsLost renews leases as soon as Lost is closed: the store keeps the key for a little longer.
func (t *trial) renewsLost() {
	t.eachRenewal(1, func(_ int, way renewal) {
		g := t.acquire(t.a, t.newKey(), t.g.Round(max(t.short(), time.Second*time.Duration(t.stretch))))
		if !t.within(t.g.Round(g.ttl)+soon, g.Lost()) {
			t.breaks(6, "Lost is not closed %v after the deadline", time.Since(g.Deadline()))
		}
		t.wantLost(way.what+" when Lost is closed", func() error { return way.renew(t.ctx, g, t.long()) })
		if g.Deadline().After(time.Now()) {
			t.fatalf("%s when Lost is closed has moved the deadline into the future", way.what)
		}
		t.becomesFree(t.b, g.key, t.g.Round(g.ttl)+t.handOff(), "after "+way.what+" when Lost is closed")
	})
}

// staysFree fails unless Inspect reports that key is free.
func (t *trial) staysFree(key, when string) {
	switch h := t.inspect(key); {
	case h.Held():
		t.fatalf("%s: Inspect says that %q holds the key", when, h.Owner)
	case h != backend.Holder{}:
		t.breaksText(inspectRule, "%s: Inspect of a free key: %+v, want the zero Holder", when, h)
	}
}

func renewAfterRelease(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	t.release(g)
	for range 2 {
		t.isLost(g.Renew(t.ctx, t.long()), "Renew after Release")
	}
	t.staysFree(t.key, "after Renew of a released lease")
	t.free(t.b, t.key, "after Renew of a released lease")
}

func renewRacesRelease(t *trial) {
	const (
		workers = 4 // each on a key of its own
		rounds  = 50
		atMost  = 3 * time.Second
	)
	end, ways := time.Now().Add(atMost), t.renewals()
	t.together(workers, func(int) {
		key := t.newKey()
		for round := range t.rounds(rounds, end) {
			g := t.acquire(t.a, key, t.long())
			t.raceRenewals(g, ways[round%len(ways)])
			t.free(t.b, key, "after a Release that raced with renewals")
		}
	})
}

// raceRenewals renews g on several goroutines while another one releases g, until every renewal fails because of the
// release. A batch may skip a lease that is being renewed.
func (t *trial) raceRenewals(g *grant, way renewal) {
	const renewers = 3
	t.together(renewers+1, func(i int) {
		if i == renewers {
			time.Sleep(rand.N(300 * time.Microsecond))
			t.release(g)
			return
		}
		for !t.ended() {
			begun := time.Now()
			err := way.renew(t.ctx, g, t.long())
			if way.skips(err) {
				time.Sleep(rand.N(300 * time.Microsecond)) // sleeps: leaves the processor to the other renewals
				continue
			}
			t.lateOnTimeout(err, begun)
			if errors.Is(err, backend.ErrLost) {
				return
			}
			if err != nil {
				t.fatalf("%s racing with Release: %v", way.what, err)
			}
			moveClock(begun)
		}
	})
	if g.gone() {
		t.fatalf("Lost is closed after a Release that returned nil")
	}
}

func renewRacesExpiry(t *trial) {
	const keys, rounds = 12, 2
	ways := t.renewals()
	t.inChunks(keys, 1, func(i int) {
		key, way := t.newKey(), ways[i/2%len(ways)]
		moment := 10 * time.Millisecond
		if i%2 == 0 {
			moment = t.short() / 3 // for a machine whose timers are late
		}
		for range rounds {
			g := t.acquire(t.a, key, t.short())
			w := t.wait(t.b, key, t.long())
			old := g.Deadline()
			time.Sleep(time.Until(old) + 2*time.Millisecond - rand.N(moment))
			before := time.Now()
			err := way.renew(t.ctx, g, t.short())
			end := g.Deadline()
			t.lateOnTimeout(err, before)
			switch {
			case err == nil && end.Before(backend.Deadline(before, t.kept(t.short()))):
				t.fatalf("a renewal at the last moment was granted less than its TTL")
			case err == nil && w.ended() && w.grant != nil && w.grant.after.Before(before):
				t.fatalf("a renewal revived a lease %v after the next owner was granted the key", before.Sub(w.grant.after))
			case err != nil && !errors.Is(err, backend.ErrLost):
				t.fatalf("%s at the last moment: %v, want nil or ErrLost", way.what, err)
			case err == nil:
				t.outlivesDeadline(g, old, way)
			}
			next := w.granted(t, 2*t.g.Round(t.short())+t.handOff(), "after expiry")
			if err == nil && next.after.Before(end) {
				t.doubleGrant("the next owner was granted the key %v before the renewed deadline", end.Sub(next.after))
			}
			t.release(next)
		}
	})
}

// outlivesDeadline fails if Lost of g, which way has renewed in time, closes at the old deadline.
func (t *trial) outlivesDeadline(g *grant, old time.Time, way renewal) {
	time.Sleep(time.Until(old.Add(tick)))
	end := g.Deadline()
	if gone := g.gone(); gone && time.Now().Before(end) {
		t.breaks(6, "Lost is closed %v before the deadline that a %s at the last moment has set", time.Until(end), way.what)
	}
}

func renewRefusesBadTTL(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	deadline := g.Deadline()
	for _, ttl := range []time.Duration{0, -1, -time.Second, t.longest() + 1} {
		if err := g.Renew(t.ctx, ttl); !errors.Is(err, backend.ErrInvalid) {
			t.fatalf("Renew to %v: %v, want ErrInvalid", ttl, err)
		}
	}
	if !t.sameDeadline(g, deadline) {
		t.fatalf("a Renew that was refused moved the deadline")
	}
	t.heldBy(g)
	t.renew(g, t.longest())
	t.renew(g, t.long())
	t.release(g)
}

func renewHonoursContext(t *trial) {
	g := t.acquire(t.a, t.key, t.short())
	deadline := g.Deadline()
	cancelled, cancel := context.WithCancel(t.ctx)
	cancel()
	past, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for ctx, want := range map[context.Context]error{cancelled: context.Canceled, past: context.DeadlineExceeded} {
		err := g.Renew(ctx, t.long())
		if errors.Is(err, backend.ErrLost) && time.Now().After(deadline) {
			t.tooLate("a lease ended before it was renewed")
		}
		if !errors.Is(err, want) {
			t.fatalf("Renew with an ended context: %v, want %v", err, want)
		}
	}
	if g.Deadline().After(deadline) && !t.deadlineSlides(g) {
		t.fatalf("a Renew whose context had ended moved the deadline")
	}
	if g.gone() && g.live(time.Now()) {
		t.fatalf("Lost is closed before the deadline")
	}
	t.refused(t.b, g)
	t.renew(g, t.long())
	t.heldBy(g)
	t.release(g)
}
