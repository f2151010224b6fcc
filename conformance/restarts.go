package conformance

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var restartChecks = []Check{
	{
		Name: "RestartKeepsOddKeys",
		Rule: "rules 1, 5, 6, 7 and 8: a lease on a key of any bytes and length, shared or not, is after a restart of the " +
			"store what it was: held, with its token, renewable and releasable, and ended by Break, of which its holder is " +
			"notified where Guarantees.ReportsLoss says so, unless Guarantees.EarlyLoss says that it may be lost, which its " +
			"next renewal reports",
		Needs: []Need{needsRestart},
		alone: true,
		run:   restartKeepsOddKeys,
	},
	{
		Name: "RestartEndsDeadLeases",
		Rule: "rules 1 and 3: the lease of a dead holder ends by the TTL that it had last and Guarantees.MaxLate, " +
			"also if the store restarts, and not before unless Guarantees.EarlyLoss says so; a released lease stays released",
		Needs: []Need{needsRestart},
		alone: true,
		run:   restartEndsDeadLeases,
	},
	{
		Name: "RestartServesAllWaiters",
		Rule: "rules 1 and 9: after restarts of the store each waiter that goes on gets its turn, one at a time; where " +
			"Guarantees.Wake is WakePush, releases still wake waiters",
		Needs: []Need{needsRestart},
		alone: true,
		run:   restartServesAllWaiters,
	},
}

// oddest returns up to most keys that a store's files and logs are likely to get wrong, the most important first.
func (t *trial) oddest(most int) []string {
	k := t.key
	keys := []string{
		k + "\x00", t.pad(backend.MaxKeyLen, "\xff"), k + "\n", k + "\xff", k + "/b", k + "A", k + "\x00b",
		k + strings.Repeat("\x00", backend.MaxKeyLen-len(k)), k + "a", t.pad(256, ""), k + "\xfe", k + "\nb", k + "//b",
		k + " ", " " + k, k + "\r\n", k + "%00", k + "\ufffd", k + "é", k + "e\u0301", k + "\t", k + `\n`, k + `"`, k + "/",
		k + "/../b", k + "{b}", k + ":b", k + "=b", k + ",", k + "*", t.pad(255, ""), t.pad(backend.MaxKeyLen, "b"),
	}
	return keys[:min(len(keys), most)]
}

func restartKeepsOddKeys(t *trial) {
	keys := t.oddest(t.h.Many - 1)
	exclusive := len(keys)
	if t.g.Shared && t.h.Many >= exclusive+2*turns { // as many keys again, for readers
		for _, key := range keys[:exclusive] {
			keys = append(keys, "R"+key[1:])
		}
	}
	grants := make([]*grant, len(keys))
	t.inTurns(len(keys), func(i int) {
		get := t.acquire
		if i >= exclusive {
			get = t.read
		}
		grants[i] = get(t.client(i), keys[i], t.long())
		if i%3 == 0 {
			t.renew(grants[i], t.long())
		}
	})
	t.h.Restart()
	t.inTurns(len(keys), func(i int) { t.afterRestart(grants[i], t.client(i+1), i%2 == 1) })
}

// afterRestart fails unless g is unchanged, or properly lost if the store may lose it. other is a client that did not
// acquire g. It ends g, and the next lease of its key, by Break if broken is set and the store supports that.
func (t *trial) afterRestart(g *grant, other backend.Backend, broken bool) {
	on := "the key " + show(g.key)
	late := time.Duration(0)
	if t.countsAnew() { // a new leader spreads the expiries of many leases
		late = recovery
	}
	switch {
	case t.g.EarlyLoss == "":
		t.heldOverRestart(g, g.Deadline(), "lease on "+on)
		t.describesLater(g, t.long(), late)
		if lister, ok := other.(backend.Lister); ok && !t.list(lister, g.key)[g.key] && g.live(time.Now()) {
			t.breaksText(inspectRule, "List after a restart does not return %s", on)
		}
		t.becomesFreeAfterOutage(other, t.newKey())
		first := g
		if _, ok := other.(backend.Resumer); ok {
			g = t.resume(other, g, t.long())
		}
		t.endsAsBefore(other, g, first, broken, on)
	case t.renewsOrLost(g, on):
		t.describesLater(g, t.long(), late)
		t.heldBy(g)
		t.release(g)
	case !t.within(soon, g.Lost()):
		t.breaks(6, "%s: Lost is open after Renew was ErrLost", on)
	default:
		return // a store with several parts may keep the key until the TTL
	}
	next := t.acquireAfterOutage(other, g.key, t.long())
	if t.g.Fencing >= backend.FencingRestart && next.Token() <= g.Token() {
		t.breaks(7, "%s: token %d was granted after %d and a restart", on, next.Token(), g.Token())
	}
	t.heldBy(next)
	t.endsAsBefore(g.client, next, next, broken, on)
}

// endsAsBefore ends g after a restart: by a Break of client b, if broken is set and b supports that, and otherwise by
// its release. first is the lease that another client may have resumed as g.
func (t *trial) endsAsBefore(b backend.Backend, g, first *grant, broken bool, on string) {
	breaker, ok := b.(backend.Breaker)
	if !ok || !broken {
		t.release(g)
		return
	}
	t.becomesFreeAfterOutage(b, t.newKey())
	t.mustBreak(breaker, g)
	for _, l := range []*grant{g, first} {
		if t.g.ReportsLoss && !t.within(recovery, l.Lost()) {
			t.breaks(6, "%s: Lost is open %v after Break, and a restart of the store before", on, recovery)
		}
	}
}

// renewsOrLost renews g once the store responds after an outage, and reports whether g is live.
func (t *trial) renewsOrLost(g *grant, on string) (live bool) {
	var err error
	if !t.poll(recovery, func() bool {
		err = g.Renew(t.ctx, t.long())
		return err == nil || errors.Is(err, backend.ErrLost)
	}) {
		t.fatalf("%s: Renew, %v after a restart: %v, want nil or ErrLost", on, recovery, err)
	}
	return err == nil
}

// A deadLease is a lease whose holder makes no further requests.
type deadLease struct {
	what     string
	grant    *grant
	ttl      time.Duration // as granted or last renewed
	deadline time.Time     // before which nobody else may be granted the key; zero if the key may be free
	last     time.Time     // last time at which the store may refuse the key
}

// dies returns the deadLease of g, which was granted or last renewed for ttl by a reply at answered.
func (t *trial) dies(what string, g *grant, answered time.Time, ttl time.Duration) *deadLease {
	return &deadLease{what, g, ttl, g.Deadline(), t.lastRefusal(answered, ttl)}
}

func restartEndsDeadLeases(t *trial) {
	over := t.acquire(t.a, t.newKey(), t.short())
	t.expire(over)
	// One lease ends while the store is down, if the restart takes any time.
	brief := t.acquire(t.a, t.newKey(), t.short())
	dead := []*deadLease{t.dies("a lease that ended in the outage", brief, brief.after, t.short()),
		{what: "a lease that had expired", grant: over}}
	if t.g.EarlyLoss == "" { // otherwise the release may be lost, too
		g := t.acquire(t.a, t.newKey(), t.long())
		t.release(g)
		dead = append(dead, &deadLease{what: "a lease that was released", grant: g})
		if breaker, ok := t.b.(backend.Breaker); ok {
			g := t.acquire(t.a, t.newKey(), t.long())
			t.mustBreak(breaker, g)
			dead = append(dead, &deadLease{what: "a lease that was broken", grant: g})
		}
	}
	time.Sleep(time.Until(brief.Deadline()) - 2*tick)
	took := t.restartsWith(dead)
	// Other leases outlive the restart. By then they have some age.
	const age = time.Second
	ttl := t.g.Round(t.passing() + age + 2*took)
	t.restartsWith(t.deadLeases(ttl, age))
}

// restartsWith restarts the store and waits until the leases end. It returns how long the store was unavailable.
func (t *trial) restartsWith(dead []*deadLease) time.Duration {
	begun := time.Now()
	t.h.Restart()
	t.becomesFreeAfterOutage(t.b, t.newKey())
	restarted := time.Now()
	t.together(len(dead), func(i int) { t.endsAfterRestart(dead[i], restarted) })
	return restarted.Sub(begun)
}

// deadLeases returns leases that were granted or last renewed for ttl, and whose holders make no further requests. The
// leases are at least age old.
func (t *trial) deadLeases(ttl, age time.Duration) []*deadLease {
	closing := t.open()
	var ways []func() *deadLease
	if _, ok := t.b.(backend.Resumer); ok {
		for _, first := range []time.Duration{t.passing(), t.long()} {
			ways = append(ways, func() *deadLease {
				g := t.resume(t.b, t.acquire(t.a, t.newKey(), first), ttl)
				return t.dies("a lease that was resumed", g, g.after, ttl)
			})
		}
	}
	ways = append(ways, []func() *deadLease{
		func() *deadLease {
			g := t.acquire(t.a, t.newKey()+"\x00\xff/\n", ttl)
			return t.dies("a lease on an odd key", g, g.after, ttl)
		},
		func() *deadLease {
			g := t.acquire(t.a, t.newKey(), t.passing())
			t.renew(g, ttl)
			return t.dies("a lease that was prolonged", g, time.Now(), ttl)
		},
		func() *deadLease {
			g := t.acquire(t.a, t.newKey(), t.long())
			t.renew(g, ttl)
			return t.dies("a lease that was shortened", g, time.Now(), ttl)
		},
		func() *deadLease {
			g := t.waitedFor(ttl)
			return t.dies("a lease that was waited for", g, g.after, ttl)
		},
		func() *deadLease {
			g := t.acquire(closing, t.newKey(), ttl)
			d := t.dies("a lease whose client was closed", g, g.after, ttl)
			d.deadline = time.Time{} // Close has ended it for its holder
			return d
		},
	}...)
	if _, ok := t.b.(backend.BatchRenewer); ok {
		for _, first := range []time.Duration{t.passing(), t.long()} {
			ways = append(ways, func() *deadLease {
				g := t.acquire(t.b, t.newKey(), first)
				t.renewInBatch(g, ttl)
				return t.dies("a lease that was renewed in a batch", g, time.Now(), ttl)
			})
		}
	}
	dead := make([]*deadLease, len(ways))
	t.inChunks(len(ways), 2, func(i int) { dead[i] = ways[i]() })
	t.closes(closing)
	time.Sleep(age)
	return dead
}

// countsAnew reports whether the store, after a restart, counts the TTLs of dead holders from the start again.
func (t *trial) countsAnew() bool { return strings.Contains(t.g.EnforcedBy, "leader") }

// lastAfterRestart returns the last moment at which a store that has restarted may refuse the key of d.
func (t *trial) lastAfterRestart(d *deadLease, restarted time.Time) time.Time {
	last := d.last
	if t.countsAnew() && !last.IsZero() {
		last = later(last, t.lastRefusal(restarted, d.ttl))
	}
	return later(last, restarted)
}

// endsAfterRestart fails unless, after a restart of the store, the key of d becomes free in time and not too early.
func (t *trial) endsAfterRestart(d *deadLease, restarted time.Time) {
	last := t.lastAfterRestart(d, restarted)
	for late := 0; ; time.Sleep(tick) {
		sent := time.Now()
		g, err := t.requestKey(t.ctx, t.b, d.grant.key, t.long(), false)
		switch {
		case err == nil && t.g.EarlyLoss == "" && g.after.Before(d.deadline):
			t.doubleGrant("after a restart, the key of %s was granted %v before its deadline", d.what, d.deadline.Sub(g.after))
		case err == nil:
			if t.g.Fencing >= backend.FencingRestart && g.Token() <= d.grant.Token() {
				t.breaks(7, "token %d was granted after a restart and %d, of %s", g.Token(), d.grant.Token(), d.what)
			}
			t.release(g)
			return
		case errors.Is(err, backend.ErrHeld) && sent.After(last):
			const stillHeld = 2 // refusals; the store may have stood still
			if late++; late > stillHeld {
				t.notInTime(t.ruleText(3), "after a restart, the key of %s is held %v later than the store may refuse it: %v",
					d.what, sent.Sub(last), err)
			}
			time.Sleep(stall)
		case !errors.Is(err, backend.ErrHeld) && sent.After(last.Add(recovery)):
			t.fatalf("Acquire, %v after a restart: %v", recovery, err)
		}
	}
}

func restartServesAllWaiters(t *trial) {
	const waiters = 7
	key := t.key + "\x00\xff/\n"
	g := t.acquire(t.a, key, t.long())
	var waits []*waiting
	for i := range waiters {
		waits = append(waits, t.wait(t.client(i), key, t.long()))
		t.arrived(key, i+1)
	}
	t.confirmQueued(key, waiters)
	waits[waiters/2].cancel() // its cleanup races with the restart
	end := g.Deadline()
	t.restartsWaited(key, waiters-1, end)
	if t.g.EarlyLoss == "" { // the lease and the waiters outlive a second restart, too
		t.restartsWaited(key, waiters-1, end)
	}
	for _, i := range []int{waiters / 2, 0} {
		waits[i].cancel()
		t.eitherOr(waits[i])
		waits = slices.Delete(waits, i, i+1)
	}
	if t.g.EarlyLoss == "" {
		for _, w := range waits {
			w.stillWaits(t, g, t.ruleText(1))
		}
	}
	var err error
	if !t.poll(recovery, func() bool {
		err = g.Release(t.ctx)
		return err == nil || t.g.EarlyLoss != "" && errors.Is(err, backend.ErrLost)
	}) {
		t.fatalf("Release of a live lease, %v after a restart: %v", recovery, err)
	}
	for len(waits) > 0 {
		first := t.firstOf(waits, recovery+t.handOff(), "after a restart of the store and release")
		next := waits[first].grant
		waits = slices.Delete(waits, first, first+1)
		t.refused(t.a, next)
		for _, w := range waits {
			w.stillWaits(t, next, t.ruleText(1))
		}
		t.release(next)
	}
	t.becomesFree(t.b, key, t.handOff(), "after all waiters, and a restart before")
	t.pushesAfterRestart()
}

// restartsWaited restarts the store while n requests wait for key, whose holder's lease ends at end.
func (t *trial) restartsWaited(key string, n int, end time.Time) {
	t.h.Restart()
	for _, b := range []backend.Backend{t.a, t.b} {
		t.becomesFreeAfterOutage(b, t.newKey())
	}
	t.restartedBefore(end)
	if t.g.EarlyLoss == "" { // otherwise one of the waiters may have been granted the key
		t.confirmQueued(key, n)
	}
}

// pushesAfterRestart measures like pushIsPrompt, if the store promises to notify waiters. Clients may still reconnect at
// the first chance.
func (t *trial) pushesAfterRestart() {
	const keys, chances = 5, 3
	if t.g.Wake != backend.WakePush {
		return
	}
	for chance := 1; ; chance++ {
		waiter := &pushedWaiters{who: "a waiter"}
		t.inChunks(keys, 2, func(int) { t.pushes(t.newKey(), pushedAfter, waiter) })
		if waiter.prompt() {
			return
		}
		if chance == chances {
			t.notInTime(wakeRule, "after a restart of the store, a waiter gets a released key after %v (median of %d), as if "+
				"it found out by a timer", waiter.median(), len(waiter.took))
		}
	}
}
