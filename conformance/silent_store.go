package conformance

import "time"

var silentStoreChecks = []Check{
	{
		Name: "SilentStoreEndsLeases",
		Rule: "rules 3 and 9: a dead holder's lease ends, and a waiter gets its key, although no request of anybody " +
			"reaches the store meanwhile: the holder was a writer, or a reader, or had shortened its lease",
		alone: true, // requests of other checks would reach the store
		run:   silentStoreEndsLeases,
	},
}

// silentStoreEndsLeases lets one lease after the other run out, so that no waiter's request reaches the store before
// the end of the next lease. Before each of them ends another lease, whose key nobody waits for.
func silentStoreEndsLeases(t *trial) {
	get := []func() *grant{
		func() *grant { return t.acquire(t.a, t.newKey(), t.awaited()) },
		func() *grant { return t.waitedFor(t.awaited()) },
	}
	if t.g.Shared {
		get = append(get, func() *grant { return t.read(t.a, t.newKey(), t.awaited()) })
	}
	for _, get := range get {
		t.acquire(t.b, t.newKey(), t.short())
		g := get()
		w := t.wait(t.b, g.key, t.long())
		t.arrived(g.key, 1)
		t.endsInSilence(g, w, "the expiry of a lease")
	}
	for _, way := range t.renewals() {
		g := t.acquire(t.a, t.newKey(), t.long())
		w := t.wait(t.b, g.key, t.long())
		t.arrived(g.key, 1)
		t.renewBy(g, t.short(), func() error { return way.renew(t.ctx, g, t.short()) })
		g.ttl, g.after = t.short(), time.Now()
		t.endsInSilence(g, w, "the expiry of a lease that "+way.what+" had shortened")
	}
}

// endsInSilence fails unless w is granted the key of g, whose holder is dead, when the TTL has run out.
func (t *trial) endsInSilence(g *grant, w *waiting, after string) {
	most := time.Until(t.lastRefusal(g.after, g.ttl)) + t.handOff()
	next := w.granted(t, most, "after "+after+", while no request reached the store")
	if early := g.Deadline().Sub(next.after); early > 0 {
		t.doubleGrant("a waiter was granted the key %v before the holder's deadline", early)
	}
	t.release(next)
}
