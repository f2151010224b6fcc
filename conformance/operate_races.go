package conformance

import (
	"errors"
	"math/rand/v2"
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
	t.inChunks(keys, 2, func(i int) {
		g := t.acquire(t.client(i), t.newKey(), t.long())
		w := t.wait(t.client(i/2), g.key, t.long())
		t.arrived(g.key, 1)
		t.together(2, func(j int) {
			if i/4%2 == j {
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
		next := w.granted(t, t.handOff(), "after a release that met a Break")
		t.refusedFor(t.b, next, lateBy)
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
	})
}
