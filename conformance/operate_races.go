package conformance

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

var operateRaceChecks = []Check{
	{
		Name: "BreakRacesRelease",
		Rule: "Breaker.Break of a lease that its holder releases at the same moment does not end the next owner's lease",
		run:  breakRacesRelease,
	},
}

func breakRacesRelease(t *trial) {
	const keys = 16
	breaker, ok := t.b.(backend.Breaker)
	if !ok {
		t.skipf("the store is no Breaker")
	}
	moment := 2 * t.typical()
	if t.g.Shared {
		t.inChunks(keys, 3, func(i int) { t.breakRacesReader(breaker, i, moment) })
	}
	t.inChunks(keys, 2, func(i int) {
		g := t.acquire(t.client(i), t.newKey(), t.long())
		w := t.wait(t.client(i/2), g.key, t.long())
		t.arrived(g.key, 1)
		t.breaksAndReleases(breaker, g, i/4%2, moment)
		next := w.granted(t, t.handOff(), "after a release that met a Break")
		t.refusedFor(t.b, next, lateBy)
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
	})
}

// breakRacesReader breaks one of three readers, who releases its lease at the same moment. The others must stay.
func (t *trial) breakRacesReader(breaker backend.Breaker, i int, moment time.Duration) {
	const n = 3
	key, at := t.newKey(), i%n
	readers := t.readers(key, n, t.long())
	others := slices.Delete(slices.Clone(readers), at, at+1)
	t.breaksAndReleases(breaker, readers[at], i/n%2, moment)
	t.refusedFor(t.b, others[0], lateBy)
	t.readersKeepOut(others, "after a release of another reader that met a Break")
	for _, g := range others {
		t.release(g)
	}
	t.mustBeFree(t.b, key, "after the release of all readers, of which one met a Break")
}

// breaksAndReleases releases g while client b breaks its lease. later is the call that begins later, by up to moment:
// the release (0) or the Break (1).
func (t *trial) breaksAndReleases(breaker backend.Breaker, g *grant, later int, moment time.Duration) {
	t.together(2, func(j int) {
		if j == later {
			time.Sleep(rand.N(moment)) // sleeps: the two meet at another moment each time
		}
		begun, end := time.Now(), func() error { return g.Release(t.ctx) }
		if j == 1 {
			end = func() error { return breaker.Break(t.ctx, g.key, g.owner) }
		}
		err := end()
		t.lateOnTimeout(err, begun)
		if err != nil && !errors.Is(err, backend.ErrLost) {
			t.fatalf("Release and Break of one lease at once: %v, want nil or ErrLost", err)
		}
	})
}
