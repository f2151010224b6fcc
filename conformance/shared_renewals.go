package conformance

import "time"

// Checks of overlapping renewals of different readers.
var sharedRenewalChecks = []Check{
	{
		Name: "ReadersRenewAtOnce",
		Rule: "rules 1 and 5: readers of one key and client that are renewed at the same moment are each renewed in the " +
			"store",
		run: readersRenewAtOnce,
	},
}

// readersRenewAtOnce renews several readers of each key at once, and lets their first TTL pass.
func readersRenewAtOnce(t *trial) {
	const keys, most = 2, 8
	ways, n := t.renewals(), min(most, t.h.Many)
	brief := t.passing()
	t.inChunks(keys*len(ways), n, func(i int) {
		way, key := ways[i/keys], t.newKey()
		readers := make([]*grant, n)
		for j := range readers {
			readers[j] = t.read(t.a, key, brief)
		}
		t.atOnce(n, func(j int) {
			g, before := readers[j], time.Now()
			t.renewBy(g, t.long(), func() error { return way.renew(t.ctx, g, t.long()) })
			t.keepsDeadline(g, t.long(), before, time.Now(), way.what)
			g.ttl = t.long()
		})
		t.outlast(t.lastRefusal(readers[n-1].after, brief))
		t.readersKeepOut(readers, "when the TTL from before "+way.what+" has passed, which renewed them at once")
		for _, g := range readers {
			t.release(g)
		}
		t.mustBeFree(t.b, key, "after the release of all readers")
	})
}
