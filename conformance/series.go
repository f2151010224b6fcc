package conformance

import "time"

var seriesChecks = []Check{
	{
		Name: "EachRenewalCounts",
		Rule: "Lease.Renew, alone and in a batch, makes the lease end its TTL from now: at whatever moment of the lease, " +
			"however many renewals came before, however soon one follows the other, and whoever waits",
		run: eachRenewalCounts,
	},
}

func eachRenewalCounts(t *trial) {
	t.renewalsInSeries()
	t.lastOfSeries()
	t.renewalsAtMoments()
}

// renewalsInSeries makes many renewals of one lease. It checks the effect of each, if Inspect returns the TTL.
func (t *trial) renewalsInSeries() {
	const renewals = 60
	ways, modes := t.renewals(), t.modes()
	t.inChunks(2*len(ways)*len(modes), 4, func(i int) {
		g, way := t.getterOf(modes[i/2/len(ways)])(t.a, t.newKey(), t.long()), ways[i/2%len(ways)]
		var others []*waiting
		for n := range 3 * (i % 2) {
			others = append(others, t.wait(t.client(n), g.key, t.long()))
			t.arrived(g.key, n+1)
		}
		token := g.Token()
		for n := range renewals {
			g.ttl = []time.Duration{2 * t.long(), t.long() / 2, t.long()}[n%3]
			before := time.Now()
			t.renewBy(g, g.ttl, func() error { return way.renew(t.ctx, g, g.ttl) })
			t.keepsDeadline(g, g.ttl, before, time.Now(), way.what)
			t.describes(g, g.ttl)
		}
		if g.Token() != token {
			t.breaks(7, "the token changed from %d to %d with renewal", token, g.Token())
		}
		for _, w := range others {
			w.cancelAndFail(t)
		}
		t.queueAtMostOf(g.key, 0)
		t.release(g)
	})
}

// lastOfSeries makes several renewals, the last of them for a different TTL. The lease's end shows whether the last one
// counted, whatever number of renewals came before.
func (t *trial) lastOfSeries() {
	most := min(24, t.h.Many/2)
	t.eachRenewal(2*most, func(i int, way renewal) {
		renew := func(g *grant, ttl time.Duration) {
			t.renewBy(g, ttl, func() error { return way.renew(t.ctx, g, ttl) })
		}
		n, first, last := i/2, t.passing(), t.long()
		if i%2 == 1 {
			first, last = t.long(), t.short()
		}
		g := t.acquire(t.a, t.newKey(), first)
		for range n {
			renew(g, first)
		}
		end, before := time.Now().Add(t.g.Round(first)), time.Now()
		renew(g, last)
		after := time.Now()
		if last < first {
			t.endsInTime(&grant{Lease: g.Lease, client: g.client, key: g.key, owner: g.owner, ttl: last, before: before,
				after: after})
			return
		}
		time.Sleep(time.Until(end) + tick)
		t.refused(t.b, g)
		t.release(g)
	})
}

// renewalsAtMoments renews leases to the same TTL, early or late. Each lease must then live until its new deadline.
func (t *trial) renewalsAtMoments() {
	percents := []time.Duration{0, 1, 3, 4, 7, 9, 9, 15, 15, 22, 22, 30, 45, 45, 60, 70}
	t.eachRenewal(len(percents), func(i int, way renewal) {
		ttl, get := t.g.Round(4*t.short()), t.acquire
		if t.g.Shared && i%2 == 1 {
			get = t.read
		}
		g := get(t.a, t.newKey(), ttl)
		time.Sleep(time.Until(g.before.Add(ttl * percents[i] / 100)))
		before := time.Now()
		t.renewBy(g, ttl, func() error { return way.renew(t.ctx, g, ttl) })
		t.keeps(g, ttl, before, time.Now(), way.what)
		time.Sleep(time.Until(g.Deadline()) - ttl/50) // sleeps: what was not renewed has ended by then
		if !g.live(time.Now()) {
			t.provesNothing("a lease ended before it could be looked at shortly before its end")
		}
		t.refused(t.b, g)
		_ = g.Release(t.ctx) // if it fails, the TTL ends the lease
	})
}
