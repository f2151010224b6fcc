package conformance

import (
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

var servedKeyChecks = []Check{
	{
		Name: "OddKeysAreServed",
		Rule: "rule 8: a key of any bytes and length is served by every method: its lease is renewed, alone and in a " +
			"batch, inspected, listed, resumed, broken and released",
		run: oddKeysAreServed,
	},
}

// oddKeysAreServed uses each method for each odd key. Renewed leases must outlive their first TTL.
func oddKeysAreServed(t *trial) {
	for keys := range slices.Chunk(t.oddKeys(), t.h.Many) {
		for i, way := range t.renewals() {
			for _, shared := range t.modes() {
				t.servesKeys(keys, t.getterOf(shared), way, i == 0)
			}
		}
	}
}

// servesKeys uses each method for each of keys. get acquires the keys, and way renews the leases. If breaks is set, the
// leases are broken at the end, if the store supports Break.
func (t *trial) servesKeys(keys []string, get getter, way renewal, breaks bool) {
	breaker, isBreaker := t.b.(backend.Breaker)
	_, resumes := t.b.(backend.Resumer)
	lister, lists := t.b.(backend.Lister)
	grants := make([]*grant, len(keys))
	t.inTurns(len(keys), func(i int) {
		g := get(t.a, keys[i], t.passing())
		t.renewBy(g, t.long(), func() error { return way.renew(t.ctx, g, t.long()) })
		g.ttl = t.long()
		grants[i] = g
	})
	time.Sleep(time.Until(grants[len(grants)-1].before.Add(t.g.Round(t.passing()) + tick)))
	t.inTurns(len(keys), func(i int) {
		g := grants[i]
		t.refused(t.b, g)
		t.describes(g, t.long())
		if lists && !t.list(lister, g.key)[g.key] {
			t.fatalf("List of the key %s, which is held, does not return it", show(g.key))
		}
		if resumes {
			g = t.resume(t.b, g, t.long())
		}
		if breaks && isBreaker {
			t.mustBreak(breaker, g)
			t.isLost(g.Release(t.ctx), "Release of a lease that was broken")
		} else {
			t.release(g)
		}
		t.staysFree(g.key, "after the end of its lease")
		t.free(t.b, g.key, "after the end of the lease of the key "+show(g.key))
	})
}
